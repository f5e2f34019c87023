"""Drawn programs make on pointers what they make on the data, or raise; and mendings that are taken out show.

`python -m tests.remote.fuzzer 1000 0` tries more, through real rooms.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
import torch

from duetlink.duet.asking.mocks.agreement import NO_DIFFERENCE, Mates
from tests.remote.fuzzer import world
from tests.remote.fuzzer.draw import program
from tests.remote.fuzzer.plants import PLANTS
from tests.remote.fuzzer.trial import Difference, here, run, shrunk

PROGRAMS = 60
WITHIN = 40  # programs of its library, by which a mending that is taken out is found
# as a setting allows: the check on mocks would say that some of them differ before anything is compared
UNCHECKED = partial(here, check_on_mocks=False)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_no_program_differs_in_silence() -> None:
    outcomes = [run(program(seed)) for seed in range(PROGRAMS)]
    assert [str(one.difference) for one in outcomes if one.difference] == []
    assert sum(one.compared for one in outcomes) > 5 * PROGRAMS
    assert sum(len(one.refused) for one in outcomes) < 3 * PROGRAMS


def test_a_seed_is_one_program() -> None:
    assert program(5) == program(5)
    assert program(5) != program(6)


def test_mocks_differ_from_the_data_in_every_object() -> None:
    real, mocks = world.data(), world.mocks()
    assert real.keys() == mocks.keys()
    for name, obj in real.items():
        assert type(obj) is type(mocks[name])
        assert obj.shape == mocks[name].shape
        assert run([f"v = {name}"]).compared == 2


def found(seeds: range, library: str) -> Difference | None:
    for seed in seeds:
        outcome = run(program(seed, (library,)), UNCHECKED)
        if outcome.difference is not None:
            return outcome.difference
    return None


@pytest.mark.parametrize("name", PLANTS)
def test_a_mending_that_is_taken_out_is_found(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(Mates, "difference_to_mates", lambda self, program, mock: NO_DIFFERENCE)
    PLANTS[name].take_out(monkeypatch)
    assert found(range(WITHIN), PLANTS[name].library) is not None


@pytest.mark.parametrize("name", ["S10 labels that repeat", "S11 a column for each class"])
def test_where_a_rule_of_sizes_is_missing_the_mates_keep_what_differs(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    PLANTS[name].take_out(monkeypatch)
    assert found(range(WITHIN), PLANTS[name].library) is None


def test_what_is_found_is_printed_as_the_lines_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTS["S4 operators in place"].take_out(monkeypatch)
    long = ["a = x * 2", "b = x * 1", "c = b", "c += 1", "d = a.sum()"]
    outcome = run(long)
    assert outcome.difference is not None
    short = shrunk(outcome.difference)
    assert short.statements == ("b = x * 1", "c = b", "c += 1")
    assert str(short).splitlines()[:4] == ["b = x * 1", "c = b", "c += 1", "# b: "]
