"""Whole transfers in virtual time: how close the tuner comes to the best single codec in hindsight."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from duetlink.data.tuning import Compression
from tests.data.tuning.conftest import MakeBench
from tests.data.tuning.simulation import DATA, MB, MIB, FakeCodec, Link, Simulation, best_fixed, speed_of

LINKS = (1.25, 12.5, 125.0, 800.0)


def used(run: Simulation) -> Counter[str]:
    """Bytes of arrays by codec."""
    found: Counter[str] = Counter()
    for _, size, choice in run.log:
        found[choice.codec.name] += size
    return found


@pytest.mark.parametrize(
    ("speed", "slowdown"),
    [*itertools.product((1.25, 12.5, 125.0), (0.5, 1.0, 2.5)), (800.0, 0.5), (800.0, 1.0)],
)
@pytest.mark.parametrize("kind", DATA)
def test_no_single_codec_is_much_better(
    make_bench: MakeBench, speed: float, kind: str, slowdown: float
) -> None:
    link = Link([(0.0, speed)])
    bench = make_bench(speed, slowdown=slowdown)
    taken = bench.transfer([(0, kind)], link).run()
    best, raw = best_fixed(kind, link, 64 * MIB, slowdown)
    assert taken <= 1.05 * best
    assert taken <= 1.03 * raw


@pytest.mark.parametrize("kind", ["noise", "1.2x", "2x"])
@pytest.mark.parametrize("speed", [30, 117, 250])
def test_two_ends_may_share_their_processors(make_bench: MakeBench, speed: float, kind: str) -> None:
    link = Link([(0.0, speed)], loopback_from=0, wire_cpu_s=4.2e-9, array_cpu_s=0.8e-9)
    taken = make_bench(speed, together=True).transfer([(0, kind)], link).run()
    best, raw = best_fixed(kind, link, 64 * MIB)
    assert taken <= 1.05 * best
    assert taken <= 1.03 * raw


@pytest.mark.parametrize("kind", ["noise", "1.2x"])
def test_a_fast_link_is_left_alone(make_bench: MakeBench, kind: str) -> None:
    bench = make_bench(800)
    run = bench.transfer([(0, kind)], Link([(0.0, 800)]))
    run.run()
    assert bench.world.trials == 0
    assert used(run) == {"raw": 64 * MIB}


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("speed", LINKS)
def test_an_unknown_link_is_never_worse_than_raw(make_bench: MakeBench, speed: float, kind: str) -> None:
    link = Link([(0.0, speed)])
    taken = make_bench().transfer([(0, kind)], link).run()
    assert taken <= 1.03 * best_fixed(kind, link, 64 * MIB)[1]


def test_the_second_transfer_knows_the_link(make_bench: MakeBench) -> None:
    link = Link([(0.0, 12.5)])
    bench = make_bench()
    bench.transfer([(0, "2x")], link).run()
    assert bench.transfer([(0, "2x")], link).run() <= 1.05 * best_fixed("2x", link, 64 * MIB)[0]


@pytest.mark.parametrize("kind", ["1.2x", "2x"])
@pytest.mark.parametrize(
    ("before", "after"),
    [(125, 1.25), (125, 12.5), (12.5, 1.25), (1.25, 12.5), (1.25, 125), (12.5, 125), (800, 12.5)],
)
def test_a_link_that_changes_is_followed_within_3_s(
    make_bench: MakeBench, before: float, after: float, kind: str
) -> None:
    size = int(2.4 * (before * 3 + after * 10 + 10) * MB)
    link = Link([(0.0, before), (2.0, after)])
    bench = make_bench(before)
    run = bench.transfer([(0, kind)], link, size)
    run.run()
    late = [(size, choice) for sent_s, size, choice in run.log if sent_s >= 5.0]
    speeds = [codec.at(kind) for codec in bench.codecs[1:] if isinstance(codec, FakeCodec)]
    best = max(after / speed.ratio for speed in speeds if 2 * speed.encode > after)
    wire = sum(raw * (1.0 if choice.raw else speed_of(choice, kind).ratio) for raw, choice in late)
    reached = after * sum(raw for raw, _ in late) / wire
    assert reached >= 0.9 * best
    assert len(bench.history) <= 8


@pytest.mark.parametrize("kind", ["noise", "1.2x", "2x"])
@pytest.mark.parametrize("before", [12.5, 125])
def test_a_link_that_became_fast_gets_raw(make_bench: MakeBench, before: float, kind: str) -> None:
    bench = make_bench(before)
    run = bench.transfer([(0, kind)], Link([(0.0, before), (2.0, 800)]), 4000 * MIB)
    run.run()
    late = {choice.codec.name for sent_s, _, choice in run.log if sent_s >= 5.0}
    assert late == {"raw"}
    assert len(bench.history) <= 8


@pytest.mark.parametrize("speed", [60, 100, 150, 240, 300])
@pytest.mark.parametrize("kind", DATA)
def test_what_made_things_worse_is_taken_back(make_bench: MakeBench, speed: float, kind: str) -> None:
    """Encoding takes the processors that the link needs, and no prediction knows it."""
    link = Link([(0.0, speed)], loopback_from=0)
    bench = make_bench(speed)
    taken = bench.transfer([(0, kind)], link, 256 * MIB).run()
    best, raw = best_fixed(kind, link, 256 * MIB)
    assert taken <= 1.1 * best
    assert taken <= 1.08 * raw
    assert len(bench.history) <= 8


def test_the_record_says_what_was_measured(make_bench: MakeBench) -> None:
    bench = make_bench(150)
    bench.transfer([(0, "1.2x")], Link([(0.0, 150)], loopback_from=0), 256 * MIB).run()
    first = next(iter(bench.history))
    assert first.before is None
    assert first.after.codec == "planes"
    assert first.why.startswith(
        "The link carries 150 MB/s, and planes encodes it at 476 MB/s per worker to 84."
    )
    assert first.predicted == pytest.approx(178.4e6, rel=0.01)
    assert first.measured is not None
    assert first.measured < 150e6
    assert any("instead of the 150 MB/s of raw" in decision.why for decision in bench.history)


def test_data_that_change_within_an_object(make_bench: MakeBench) -> None:
    link = Link([(0.0, 12.5)])
    bench = make_bench(12.5)
    size = 128 * MIB
    run = bench.transfer([(0, "noise"), (32 * MIB, "90x"), (96 * MIB, "noise")], link, size)
    # 64 MiB of noise at least take so long; the rest is nearly nothing, but for what it takes to notice
    assert run.run() <= (64 + 20) * MIB / 12.5e6


def test_a_codec_that_no_table_knows_is_tried(make_bench: MakeBench) -> None:
    bench = make_bench(1.25, names={"pcodec": "theirs"})
    run = bench.transfer([(0, "2x")], Link([(0.0, 1.25)]))
    run.run()
    assert used(run)["theirs"] > 56 * MIB


def test_the_fewest_bytes(make_bench: MakeBench) -> None:
    bench = make_bench(125)
    bench.tuner.compression = bench.tuner.compression.changed(objective="bytes")
    run = bench.transfer([(0, "1.2x")], Link([(0.0, 125)]))
    run.run()
    assert used(run)["pcodec"] >= 56 * MIB
    assert used(run)["lzma"] == 0


def test_the_least_processor_time(make_bench: MakeBench) -> None:
    bench = make_bench(12.5)
    bench.tuner.compression = bench.tuner.compression.changed(objective="cpu")
    run = bench.transfer([(0, "1.2x")], Link([(0.0, 12.5)]))
    run.run()
    assert used(run) == {"raw": 64 * MIB}


@pytest.mark.parametrize("slowdown", [1.0, 2.5])
@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("size", [MIB, 4 * MIB])
@pytest.mark.parametrize("speed", [1.25, 12.5, 125.0])
def test_the_least_time_until_one_object_is_there(
    make_bench: MakeBench, speed: float, size: int, kind: str, slowdown: float
) -> None:
    link = Link([(0.0, speed)])
    bench = make_bench(speed, slowdown=slowdown, compression=Compression(objective="latency"))
    bench.transfer([(0, kind)], link, size).run()  # which has seen such data
    best, _ = best_fixed(kind, link, size, slowdown)
    assert bench.transfer([(0, kind)], link, size).run() <= 1.05 * best + 0.0008  # two looks at the data


def test_the_first_chunk_of_a_hurried_object_is_small(make_bench: MakeBench) -> None:
    chunks = {}
    for objective in ("throughput", "latency"):
        bench = make_bench(125, compression=Compression(objective=objective))
        run = bench.transfer([(0, "2x")], Link([(0.0, 125)]), 16 * MIB)
        run.run()
        chunks[objective] = max(size for _, size, choice in run.log if not choice.raw)
    assert chunks == {"throughput": MIB, "latency": MIB // 2}


@pytest.mark.parametrize("speed", [30, 60, 120])
def test_a_link_that_turns_out_to_be_faster_is_no_codecs_fault(make_bench: MakeBench, speed: float) -> None:
    bench = make_bench(10)
    link = Link([(0.0, speed)], buffer_bytes=500_000)
    run = bench.transfer([(0, "1.2x")], link, 128 * MIB)
    run.run()
    assert not [decision.why for decision in bench.history if "instead of" in decision.why]
    assert {choice.raw for _, _, choice in run.log} == {False}
