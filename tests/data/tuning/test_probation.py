"""What counts for and against a change of choice."""

from __future__ import annotations

import pytest

from duetlink.data.codecs.element import FLOAT32
from duetlink.data.codecs.registry import named
from duetlink.data.tuning.choice import Choice
from duetlink.data.tuning.decision import Decision, Plan
from duetlink.data.tuning.outlook import Outlook
from duetlink.data.tuning.probation import Probation
from duetlink.data.tuning.sample import features, take
from duetlink.data.tuning.subject import Subject
from tests.data.tuning.conftest import MakeBench
from tests.data.tuning.simulation import DATA, MIB

PLANES, RAW = Choice(named("planes"), 1), Choice(named("raw"), 0)


class OnProbation:
    """Planes on a path that carried 280 MB/s for others."""

    def __init__(self, make_bench: MakeBench) -> None:
        self.outlook = Outlook(make_bench(280).tuner._knowledge, "tcp", 64 * MIB, 0.0)
        self.probation = Probation(self.outlook, lambda decision: None)
        self.subject = Subject(FLOAT32, features(take(DATA["1.2x"])))

    def begin(self) -> None:
        self.subject.choice = PLANES
        plan = Plan("planes", 1, MIB, 1)
        self.probation.begin(Decision(0, 0.0, "x", "tcp", None, plan, ""), self.subject)

    def send(self, choice: Choice, chunks: int, bytes_per_s: float) -> None:
        for _ in range(chunks):
            self.probation.sent(choice, MIB, MIB // 2, MIB / bytes_per_s, True)


@pytest.fixture
def on_probation(make_bench: MakeBench) -> OnProbation:
    return OnProbation(make_bench)


def test_a_beginning_is_not_compared_with_what_others_measured(on_probation: OnProbation) -> None:
    on_probation.begin()
    on_probation.send(PLANES, 22, 200e6)  # a tenth of a second
    assert on_probation.probation.verdict(0.1) is None
    on_probation.send(PLANES, 20, 200e6)
    retreat = on_probation.probation.verdict(0.2)
    assert retreat is not None
    assert retreat.choice is not None
    assert retreat.choice.raw


def test_with_what_was_measured_here_it_is(on_probation: OnProbation) -> None:
    on_probation.send(RAW, 22, 280e6)
    on_probation.begin()
    on_probation.send(PLANES, 22, 200e6)
    retreat = on_probation.probation.verdict(0.2)
    assert retreat is not None
    assert retreat.choice is not None
    assert retreat.choice.raw


@pytest.mark.parametrize(("ratio", "blamed"), [(0.25, False), (0.8, True)])
def test_a_choice_is_blamed_for_a_slower_link_unless_it_brings_the_most_all_the_same(
    on_probation: OnProbation, ratio: float, blamed: bool
) -> None:
    on_probation.begin()
    on_probation.subject.encoded(PLANES.key, ratio)
    on_probation.send(PLANES, 4, 200e6)
    for number in range(1, 40):  # 125 MB/s: 500 of arrays, or 156
        on_probation.outlook.goodput.sent(MIB, MIB / 125e6, number * MIB / 125e6)
    assert (on_probation.probation.blame(0.4) is not None) == blamed
