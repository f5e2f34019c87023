"""The parts of the tuner alone: sample, model, goodput, speeds, pacing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetlink.data.codecs import codecs
from duetlink.data.codecs.element import FLOAT32, UINT8
from duetlink.data.tuning import RateCap
from duetlink.data.tuning.data_profile import DataProfile
from duetlink.data.tuning.goodput import Goodput, alike
from duetlink.data.tuning.model import RAW, Figures, Line, cost, delivery_s, rate
from duetlink.data.tuning.priors import choices
from duetlink.data.tuning.sample import Kind, kind_of, take
from tests.data.tuning.simulation import DATA

MIB = 1 << 20


# -- sample


@pytest.mark.parametrize(
    ("name", "kind"),
    [("noise", Kind.NOISE), ("1.2x", Kind.DENSE), ("2x", Kind.REDUNDANT), ("90x", Kind.SPARSE)],
)
def test_kinds_of_data(name: str, kind: Kind) -> None:
    assert kind_of(take(DATA[name])) is kind


def test_what_repeats_is_redundant_though_all_bytes_are_as_frequent() -> None:
    assert kind_of(take(np.tile(np.arange(256, dtype=np.uint8), 256))) is Kind.REDUNDANT


@given(st.integers(0, 300_000), st.sampled_from(["u1", "u2", "f4", "f8", "c16"]))
def test_a_sample_is_at_most_64_kib_of_the_items(length: int, dtype: str) -> None:
    array = np.arange(length).astype(dtype)
    sample = take(array)
    assert sample.dtype == array.dtype
    assert sample.nbytes <= 65536
    assert sample.nbytes == min(array.nbytes, 65536)
    kind_of(sample)


def test_parts_that_differ_are_no_change_of_the_data_but_once() -> None:
    profile = DataProfile(FLOAT32, Kind.DENSE)
    changes = [number for number in range(200) if profile.encoded(("zstd", 1), [0.5, 0.1][number % 2])]
    assert changes == [7]  # what few chunks say is not enough
    assert profile.ratios["zstd", 1] == pytest.approx(0.3, abs=0.05)
    assert any(profile.encoded(("zstd", 1), 0.9) for _ in range(20))  # this is one


# -- model


def test_a_pipeline_is_as_fast_as_its_slowest_part() -> None:
    figures = Figures(100e6, 400e6, 0.5)
    assert rate(figures, Line(10e6, 2, 2)) == 20e6
    assert rate(figures, Line(240e6, 2, 2)) == 200e6
    assert rate(RAW, Line(10e6, 2, 2)) == 10e6


def test_a_link_of_processors_loses_what_codecs_take() -> None:
    line = Line(400e6, 2, 2)
    assert rate(RAW, line) == 400e6
    # 2 processors; of the 2/400 microseconds that a byte takes 0.8 ns are for the array's, whatever its size
    expected = 2 / (0.8e-9 + 2e-9 + 1e-9 + 0.8 * 4.2e-9)
    assert rate(Figures(500e6, 1000e6, 0.8), line) == pytest.approx(expected)


def test_two_ends_on_one_machine_share_its_processors() -> None:
    figures = Figures(500e6, 1000e6, 0.1)
    assert rate(figures, Line(117e6, 2, 2)) == 1000e6  # each encodes and decodes with two
    together = Line(117e6, 2, 2, together=True)
    assert rate(figures, together) == pytest.approx(2 / (0.8e-9 + 2e-9 + 1e-9 + 0.1 * 4.2e-9))
    assert rate(RAW, together) == 117e6


def test_one_chunk_passes_one_part_after_another() -> None:
    assert delivery_s(Figures(100.0, 200.0, 0.5), Line(10.0, 2, 2, 3.0), 100, 100) == 3 + 1 + 5 + 0.5


def test_least_processor_time_is_not_much_slower_than_raw() -> None:
    line = Line(100e6, 1, 2)
    assert cost("cpu", Figures(50e6, 1e9, 0.1), line, MIB, MIB) == float("inf")


# -- what may be chosen


def test_lossy_codecs_and_deltas_are_never_chosen() -> None:
    found = [
        choice
        for codec in codecs()
        for element, role in ((FLOAT32, "tensor"), (UINT8, "bytes"))
        for choice in choices(codec, element, role)
    ]
    assert found
    assert all(choice.codec.lossless and choice.codec.kind != "gradient" for choice in found)
    assert not {"raw", "delta"} & {choice.codec.name for choice in found}


# -- goodput


def fill(goodput: Goodput, chunk: int, rate_: float, chunks: int, now_s: float = 0.0) -> float:
    """Chunks that each hold the sender as long as the link takes."""
    for _ in range(chunks):
        now_s += chunk / rate_
        goodput.sent(chunk, chunk / rate_, now_s)
    return now_s


def test_what_buffers_take_at_once_is_not_speed() -> None:
    goodput = Goodput()
    for _ in range(4):
        goodput.sent(MIB, 0.0, 0.0)
    assert goodput.estimate is None
    fill(goodput, MIB, 12.5e6, 5)
    assert goodput.estimate == pytest.approx(12.5e6)


def test_a_slow_encoder_does_not_make_a_slow_link() -> None:
    goodput, now_s = Goodput(), 0.0
    for _ in range(50):  # 10 ms of encoding, then held for the rest of what 10 MB/s take
        now_s += 0.1
        goodput.sent(1_000_000, 0.09, now_s)
    assert goodput.estimate == pytest.approx(10e6)


def test_a_transport_that_waits_for_busy_processors_does_not_either() -> None:
    goodput, now_s = Goodput(100e6), 0.0
    for _ in range(50):  # 60 ms of encoding by all processors, then 40 until the transport gets its turn
        now_s += 0.1
        goodput.sent(1_000_000, 0.04, now_s)
    assert goodput.estimate == 100e6


def test_a_sender_that_processors_hold_knows_a_lower_bound() -> None:
    goodput, now_s = Goodput(100e6), 0.0
    for _ in range(100):
        now_s += 0.02
        assert goodput.sent(1_000_000, 0.02, now_s, processors=True)
    assert (goodput.estimate, goodput.measured) == (100e6, None)  # 50 MB/s say nothing against it
    goodput, now_s = Goodput(30e6), 0.0
    for _ in range(100):
        now_s += 0.02
        goodput.sent(1_000_000, 0.02, now_s, processors=True)
    assert goodput.estimate == pytest.approx(50e6)  # no hope for more: it may be the link
    fill(goodput, MIB, 80e6, 20, now_s)
    assert goodput.estimate == pytest.approx(80e6)  # what the link held is measured by itself


@pytest.mark.parametrize(
    ("before", "chunks", "lasting"),
    [(None, 10, True), (60e6, 10, True), (117e6, 10, False), (117e6, 40, True)],
    ids=["not known", "as before", "slower for a moment", "slower for long"],
)
def test_what_is_slower_for_a_moment_is_not_for_the_next_transfer(
    before: float | None, chunks: int, lasting: bool
) -> None:
    goodput = Goodput(before)
    fill(goodput, MIB, 70e6, chunks)
    assert goodput.measured == pytest.approx(70e6)
    assert goodput.lasting == lasting


def test_a_sender_that_is_never_held_hopes_for_four_times_as_much() -> None:
    goodput, now_s = Goodput(5e6), 0.0
    while not goodput.free or goodput.estimate == 5e6:
        now_s += 0.01
        assert not goodput.sent(MIB, 0.0, now_s)
    assert goodput.estimate == pytest.approx(4 * MIB / 0.01, rel=0.2)
    assert now_s < 0.1


def test_patience_ends_where_a_sender_is_never_held() -> None:
    """It may be as slow as it is for its codec: a second is given to that, then two."""
    goodput, now_s = Goodput(200e6), 0.0
    hopeful = []
    for _ in range(350):
        now_s += 0.01
        goodput.sent(MIB, 0.0, now_s)
        if goodput.estimate != 200e6:
            hopeful.append(now_s)
    assert hopeful[0] == pytest.approx(1.01, abs=0.02)
    assert goodput.estimate == pytest.approx(4 * MIB / 0.01, rel=0.2)


@pytest.mark.parametrize(("before", "after"), [(125e6, 1.25e6), (12.5e6, 1.25e6), (1.25e6, 125e6)])
def test_a_change_is_followed_within_two_seconds(before: float, after: float) -> None:
    goodput = Goodput()
    now_s = fill(goodput, MIB, before, 100)
    end_s = now_s
    while goodput.estimate != pytest.approx(after, rel=0.01) and end_s - now_s < 3:
        end_s = fill(goodput, MIB // 4, after, 1, end_s)
    assert end_s - now_s < 2


@pytest.mark.parametrize("rest_s", [0.0, 0.01, 3600.0])
def test_a_rest_of_the_senders_own_says_nothing_of_the_link(rest_s: float) -> None:
    goodput = Goodput()
    now_s = fill(goodput, 1 << 20, 20e6, 50) + rest_s
    before = goodput.estimate
    goodput.rested(now_s)
    assert goodput.estimate == before
    for _ in range(4):  # the buffers have run empty, and take these at once
        now_s += 0.0001
        assert not goodput.sent(1 << 20, 0.0001, now_s)
    fill(goodput, 1 << 20, 20e6, 50, now_s)
    assert goodput.estimate == pytest.approx(before, rel=0.02)


def test_a_wavering_link_is_no_other_link() -> None:
    goodput, now_s = Goodput(), 0.0
    for count in range(200):
        now_s = fill(goodput, MIB, 10e6 if count % 2 else 14e6, 1, now_s)
        assert count < 2 or alike(goodput.estimate, 12e6)


# -- pacing


def test_no_cap_no_delay() -> None:
    assert RateCap().delay_s(1 << 30, 5.0) == 0.0


@given(st.lists(st.tuples(st.integers(0, 10**6), st.floats(0, 0.5)), min_size=1, max_size=50))
def test_never_more_than_the_rate_and_a_burst(steps: list[tuple[int, float]]) -> None:
    cap, now_s, sent = RateCap(1e6), 0.0, 0
    for size, pause_s in steps:
        now_s += pause_s
        now_s += cap.delay_s(size, now_s)
        assert sent <= 1e6 * now_s + 0.1 * 1e6 + 1e-3
        sent += size


def test_a_new_rate_counts_at_once() -> None:
    cap = RateCap(1e6)
    cap.delay_s(10_000_000, 0.0)
    cap.set_rate(10e6, 0.0)
    assert cap.delay_s(1, 0.0) == pytest.approx(0.99)
    cap.set_rate(None, 0.0)
    assert cap.delay_s(10_000_000, 0.0) == 0.0
