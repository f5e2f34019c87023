"""What is tried, and what is ranked."""

from __future__ import annotations

from duetlink.codecs.element import FLOAT32
from duetlink.tuning import Compression
from duetlink.tuning.exploration import Exploration
from duetlink.tuning.outlook import Outlook
from duetlink.tuning.sample import features, take
from duetlink.tuning.subject import Subject
from tests.tuning.conftest import MakeBench
from tests.tuning.simulation import DATA, MIB

WEIGHTS = DATA["1.2x"]


def test_raw_is_taken_where_all_else_is_too_slow_though_it_disappointed(make_bench: MakeBench) -> None:
    knowledge = make_bench(800, compression=Compression(objective="cpu")).tuner._knowledge
    outlook = Outlook(knowledge, "tcp", 64 * MIB, 0.0)
    subject = Subject(FLOAT32, features(take(WEIGHTS)))
    subject.sampled(("lzma", 6), 0.9)
    knowledge.pause("tcp", subject.kind, outlook.raw.key, 0.0, None)
    assert Exploration(outlook).rank(subject, WEIGHTS, MIB, 1.0).best().raw
