"""What is tried, and what is ranked."""

from __future__ import annotations

import pytest

from duetlink.data.codecs.base import Array
from duetlink.data.codecs.element import BY_NAME, FLOAT32, Element
from duetlink.data.codecs.registry import named
from duetlink.data.tuning import Compression, History, Tuner
from duetlink.data.tuning.choice import Choice
from duetlink.data.tuning.exploration import Exploration
from duetlink.data.tuning.model import Figures, Line
from duetlink.data.tuning.outlook import Outlook, place
from duetlink.data.tuning.ranking import Ranking
from duetlink.data.tuning.sample import Kind, features, take
from duetlink.data.tuning.subject import Subject
from tests.data.tuning.conftest import Bench, MakeBench
from tests.data.tuning.simulation import DATA, MIB, FakeCodec, Link

WEIGHTS = DATA["1.2x"]


def test_raw_is_taken_where_all_else_is_too_slow_though_it_disappointed(make_bench: MakeBench) -> None:
    knowledge = make_bench(800, compression=Compression(objective="cpu")).tuner._knowledge
    outlook = Outlook(knowledge, "tcp", 64 * MIB, 0.0)
    subject = Subject(FLOAT32, features(take(WEIGHTS)))
    subject.sampled(("lzma", 6), 0.9)
    knowledge.pause("tcp", place(subject, outlook.raw), 0.0, None, 1.0)
    assert Exploration(outlook).rank(subject, lambda: WEIGHTS, MIB, 1.0).best().raw


def test_a_choice_that_disappointed_is_left_out_for_such_data_only(make_bench: MakeBench) -> None:
    bench = make_bench(1.25)
    knowledge = bench.tuner._knowledge
    outlook = Outlook(knowledge, "tcp", 64 * MIB, 0.0)
    (pcodec,) = [choice for choice in knowledge.candidates(FLOAT32) if choice.codec.name == "pcodec"]

    def best(kind: str, element: Element) -> Choice:
        bench.world.kind = kind
        subject = Subject(element, features(take(WEIGHTS)))
        return Exploration(outlook).rank(subject, lambda: take(DATA[kind]), MIB, 1.0).best()

    assert best("1.2x", FLOAT32) == pcodec
    knowledge.pause("tcp", (pcodec.key, "float32", Kind.DENSE), 0.0, None, 0.83)
    assert best("1.2x", FLOAT32) != pcodec
    assert best("2x", FLOAT32) == pcodec  # it makes half as much of these
    assert best("1.2x", BY_NAME["float64"]) == pcodec


def test_what_a_codec_writes_in_any_case_counts_as_in_a_large_chunk(make_bench: MakeBench) -> None:
    outlook = Outlook(make_bench(800).tuner._knowledge, "tcp", 64 * MIB, 0.0)
    sparse, zstd = (Choice(named(name), named(name).level) for name in ("sparse", "zstd"))
    overhead = named("sparse").overhead_bytes
    assert overhead == 102
    assert outlook.ratio(sparse, 1000, 202) == 0.1 + overhead / MIB
    assert outlook.ratio(zstd, 1000, 202) == 0.202
    small = Outlook(make_bench(800).tuner._knowledge, "tcp", 1000, 0.0)
    assert small.ratio(sparse, 1000, 202) == 0.202  # there is no larger one
    assert outlook.ratio(sparse, 1000, 50) == 50 / MIB


class Unloaded(FakeCodec):
    """Its library is not there before somebody asks for it."""

    there = broken = False

    @property
    def ready(self) -> bool:
        return self.there

    def load(self) -> None:
        if self.broken:
            raise ImportError("libbeauty.so.3: cannot open shared object file")
        self.there = True


def unload(bench: Bench, name: str) -> Unloaded:
    """Let a codec of the bench be one whose library is not loaded."""
    (index,) = [place for place, codec in enumerate(bench.codecs) if codec.name == name]
    codec = bench.codecs[index]
    codec.__class__ = Unloaded
    assert isinstance(codec, Unloaded)
    return codec


def loaded(bench: Bench) -> None:
    """Return when nothing is being loaded any more."""
    bench.tuner._knowledge._loader.join()


def used(bench: Bench, kind: str, speed: float) -> set[str]:
    """The codecs of a transfer."""
    run = bench.transfer([(0, kind)], Link([(0.0, speed)]))
    run.run()
    return {choice.codec.name for _, _, choice in run.log}


@pytest.mark.parametrize(("speed", "before_the_end"), [(12.5, False), (1.25, True)])
def test_a_codec_that_could_win_is_loaded_beside_a_long_transfer_and_after_a_short_one(
    make_bench: MakeBench, speed: float, before_the_end: bool
) -> None:
    bench = make_bench(speed)
    codec = unload(bench, "pcodec")
    course = bench.course()
    course.choose(DATA["2x"], FLOAT32, 0.0)
    loaded(bench)
    assert codec.there == before_the_end
    course.finished(1.0)
    loaded(bench)
    assert codec.there
    assert "pcodec" in used(bench, "2x", speed)


def test_what_is_loaded_here_is_loaded_by_the_peer(make_bench: MakeBench) -> None:
    bench = make_bench(12.5)
    codec = unload(bench, "pcodec")
    asked: list[str] = []
    bench.tuner._knowledge.wanted = asked.append
    for _ in range(2):
        used(bench, "2x", 12.5)
    assert asked == ["pcodec"]
    loaded(bench)
    codec.there = False  # as it is at the peer
    peer = Tuner(Compression(), frozenset({"pcodec"}), 2, History().add)
    for name in ("nonesuch", "zstd", "pcodec"):  # zstd: not for both
        peer.load(name)
    peer._knowledge._loader.join()
    assert codec.there
    assert peer._knowledge._loader._asked == {"pcodec"}


class Wordy(FakeCodec):
    """Each of its calls takes half a millisecond, however few the items."""

    def encode(self, array: Array, element: Element, level: int) -> bytes:
        self._world.advance(0.0005)
        return super().encode(array, element, level)


def test_what_a_call_takes_is_not_what_items_take(make_bench: MakeBench) -> None:
    bench = make_bench(125)
    (codec,) = [codec for codec in bench.codecs if codec.name == "planes"]
    codec.__class__ = Wordy
    run = bench.transfer([(0, "1.2x")], Link([(0.0, 125)]))
    run.course.choose(DATA["1.2x"], FLOAT32, 0.0)
    speed = bench.tuner._knowledge.speeds.encode((("planes", codec.level), "float32", Kind.DENSE))
    assert speed == pytest.approx(472e6, rel=0.02)


class Cold(FakeCodec):
    """Its first run takes a hundred times as long as the others."""

    warm = False

    def encode(self, array: Array, element: Element, level: int) -> bytes:
        for _ in range(1 if self.warm else 100):
            encoded = super().encode(array, element, level)
        self.warm = True
        return encoded


def test_a_codec_is_not_judged_by_its_first_run(make_bench: MakeBench) -> None:
    bench = make_bench(12.5)
    (codec,) = [codec for codec in bench.codecs if codec.name == "pcodec"]
    codec.__class__ = Cold
    assert "pcodec" in used(bench, "2x", 12.5)


@pytest.mark.parametrize(("kind", "speed"), [("noise", 12.5), ("2x", 800)])
def test_a_codec_that_could_not_is_never_loaded(make_bench: MakeBench, kind: str, speed: float) -> None:
    bench = make_bench(speed)
    codec = unload(bench, "pcodec")
    bench.transfer([(0, kind)], Link([(0.0, speed)])).run()
    loaded(bench)
    assert not codec.there


def test_a_codec_that_does_not_load_is_left_alone(
    make_bench: MakeBench, caplog: pytest.LogCaptureFixture
) -> None:
    bench = make_bench(12.5)
    codec = unload(bench, "pcodec")
    codec.broken = True
    for _ in range(3):
        assert "pcodec" not in used(bench, "2x", 12.5)
        loaded(bench)
    assert [record.getMessage() for record in caplog.records] == [
        "codec pcodec is installed, but does not load: libbeauty.so.3: cannot open shared object file"
    ]


def test_as_few_bytes_by_much_less_work_are_better() -> None:
    quick, slow, smaller = (Choice(named(name), named(name).level) for name in ("planes", "pcodec", "lzma"))
    figures = {
        quick: Figures(400e6, 1000e6, 0.835),
        slow: Figures(80e6, 1000e6, 0.830),
        smaller: Figures(3e6, 60e6, 0.800),
    }
    lines = [Line(1e6, 2, 2)]
    by_bytes = Ranking("bytes", figures, lines, 64 * MIB, MIB)
    assert by_bytes.best() == smaller
    del figures[smaller]
    by_bytes = Ranking("bytes", figures, lines, 64 * MIB, MIB)
    assert by_bytes.best() == quick
    assert by_bytes.lighter(quick, slow)
    assert not by_bytes.lighter(slow, quick)
    figures[quick] = Figures(100e6, 1000e6, 0.835)  # not so much less
    assert not Ranking("bytes", figures, lines, 64 * MIB, MIB).lighter(quick, slow)
    assert not Ranking("throughput", figures, lines, 64 * MIB, MIB).lighter(slow, quick)
