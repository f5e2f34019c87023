"""Sums with a codec: the dense sum's bits by fewer bytes, or a bound that is stated and kept."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from duetlink.data.codecs.element import BY_NAME
from duetlink.data.codecs.integers.spans import Spans
from duetlink.data.codecs.sketch.plan import MAX_CELLS, MAX_LOAD, SketchPlan
from duetlink.errors import OperationMismatch, PeerLost, UnknownCodec, UnsupportedValue
from duetlink.groups.collectives.execution import layout
from duetlink.groups.collectives.execution.layout import Whole
from duetlink.groups.collectives.planning.costs import Costs, LinkFigures
from duetlink.groups.collectives.reduce_options import ReduceOptions
from duetlink.groups.collectives.schedules.algorithms import ALGORITHMS
from duetlink.groups.collectives.sums.automatic import predictions
from duetlink.groups.collectives.sums.base import SumReport
from duetlink.groups.collectives.sums.blocks import blocks_of, items_of
from duetlink.groups.collectives.sums.chosen_places import by_blocks
from duetlink.groups.collectives.sums.sampling import SAMPLE
from duetlink.groups.collectives.sums.sketch_terms import SketchTerms
from duetlink.groups.links.transport import Message
from tests.groups.collectives.conftest import Group, MakeGroup

DENSITIES = (0.0, 0.02, 0.4, 1.0)
SUPPORTS = ("shared", "half", "independent")


def sparse_arrays(
    size: int, items: int, density: float, support: str, dtype: str = "float32"
) -> list[np.ndarray]:
    """One array for each member, whose supports have much, something or nothing to do with each other."""
    random = np.random.default_rng([size, items, int(100 * density), SUPPORTS.index(support)])
    shared = random.random(items)
    found = []
    for _ in range(size):
        own = random.random(items)
        if support == "shared":
            own = shared
        elif support == "half":
            own = np.where(np.arange(items) % 2, shared, own)
        values = random.normal(size=items) * 2.0 ** random.integers(-6, 6, items)
        found.append(np.where(own < density, values, 0).astype(dtype))
    return found


def adversarial(size: int, items: int, dtype: str) -> list[np.ndarray]:
    """All exponents, both zeros, infinities, NaN, numbers that cancel."""
    random = np.random.default_rng(size)
    bits = np.dtype(dtype).itemsize * 8
    arrays = [random.integers(0, 2**bits, items, f"u{bits // 8}").view(dtype) for _ in range(size)]
    for index, array in enumerate(arrays):
        array[random.random(items) < 0.5] = 0
        array[: items // 8] = -arrays[0][: items // 8] if index else array[: items // 8]
        array[items // 8 : items // 6] = -0.0
    return arrays


def same_numbers(found: object, expected: object) -> bool:
    """Bit for bit, but for what a NaN carries, which is the processor's choice."""
    assert isinstance(found, np.ndarray), found
    assert isinstance(expected, np.ndarray), expected
    assert found.dtype == expected.dtype
    nan = np.isnan(expected)
    return bool(np.array_equal(np.isnan(found), nan)) and found[~nan].tobytes() == expected[~nan].tobytes()


async def both(
    group: Group, arrays: list[np.ndarray], codec: str, algorithm: str | None = None
) -> tuple[list[object], list[object], list[SumReport]]:
    """The dense sum and the coded one, at every member, and how the latter was made."""
    dense = await group.all(lambda m: m.all_reduce(arrays[m.rank], ReduceOptions(algorithm=algorithm)))
    coded = await group.all(
        lambda m: m.all_reduce(arrays[m.rank], ReduceOptions(codec=codec, algorithm=algorithm))
    )
    return dense, coded, [member.sums[-1] for member in group.members]


def counted_bytes(group: Group) -> list[int]:
    sizes: list[int] = []

    def watch(of: int, to: int, message: Message) -> Message:
        sizes.append(len(message.body))
        return message

    group.network.on_send = watch
    return sizes


# -- the same bits -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", range(2, 10))
async def test_lossless_sums_have_the_dense_sums_bits(
    make_group: MakeGroup, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "FRAME_BYTES", 1024)  # several parts of several blocks each
    group = make_group(size)
    for index, density in enumerate(DENSITIES):
        support = SUPPORTS[(index + size) % 3]
        arrays = sparse_arrays(size, 9001, density, support)
        union = int(np.count_nonzero(np.any(arrays, axis=0)))
        for codec in ("union", "integers", "sketch"):
            dense, coded, reports = await both(group, arrays, codec, "ring" if size % 2 else None)
            assert all(same_numbers(each, dense[0]) for each in coded), (codec, density, support)
            assert all(report.lossless for report in reports)
            if codec != "integers":
                assert {report.union_items for report in reports} == {union}


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("size", [2, 5])
async def test_adversarial_values(make_group: MakeGroup, size: int, dtype: str) -> None:
    group = make_group(size)
    arrays = adversarial(size, 3000, dtype)
    for codec in ("union", "blocks", "integers", "sketch", "auto"):
        for op in ("sum", "mean"):
            dense = await group.all(lambda m, op=op: m.all_reduce(arrays[m.rank], ReduceOptions(op)))
            coded = await group.all(
                lambda m, o=op, c=codec: m.all_reduce(arrays[m.rank], ReduceOptions(o, codec=c))
            )
            assert all(same_numbers(each, dense[0]) for each in coded), (codec, op)


@pytest.mark.parametrize("algorithm", list(ALGORITHMS["all_reduce"]))
async def test_the_order_of_additions_is_that_of_every_algorithm(
    make_group: MakeGroup, algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "FRAME_BYTES", 512)
    group = make_group(5)
    arrays = sparse_arrays(5, 4003, 0.3, "half")
    dense, coded, _ = await both(group, arrays, "union", algorithm)
    assert all(same_numbers(each, dense[0]) for each in coded)


@pytest.mark.parametrize("codec", ["union", "blocks"])
@pytest.mark.parametrize("dtype", ["int32", "uint8", "complex128", "float64"])
async def test_union_of_any_kind_of_item(make_group: MakeGroup, dtype: str, codec: str) -> None:
    group = make_group(3)
    arrays = [each.astype(dtype) for each in sparse_arrays(3, 777, 0.05, "half", "float64")]
    for op in ("sum", "mean"):
        if (dtype, op) == ("uint8", "mean"):
            continue
        dense = await group.all(lambda m, op=op: m.all_reduce(arrays[m.rank], ReduceOptions(op)))
        coded = await group.all(lambda m, op=op: m.all_reduce(arrays[m.rank], ReduceOptions(op, codec=codec)))
        assert [each.tobytes() for each in coded] == [each.tobytes() for each in dense]


async def test_trees_and_tensors_of_bfloat16(make_group: MakeGroup) -> None:
    group = make_group(3)
    tensor = torch.zeros(5000, dtype=torch.bfloat16)
    tensor[::50] = 1.5
    value = {"a": tensor, "b": [np.arange(6.0), 3]}
    for codec in ("union", "integers", "auto"):
        given = {"a": tensor} if codec == "integers" else value
        for found in await group.all(lambda m, g=given, c=codec: m.all_reduce(g, ReduceOptions(codec=c))):
            assert isinstance(found, dict)
            assert found["a"].equal(tensor * 3)
            if "b" in found:
                assert found["b"][0].tolist() == [0, 3, 6, 9, 12, 15]
                assert found["b"][1] == 9


async def test_in_place_and_nothing_at_all(make_group: MakeGroup) -> None:
    group = make_group(2)
    for items in (0, 1, 9):
        arrays = [np.full(items, rank + 1, np.float32) for rank in range(2)]
        codecs = ("union", "integers", "auto", "int16", "sketch", "agreed", "blocks")
        for codec, expected in zip(codecs, (3, 6, 12, 24, 48, 96, 192), strict=True):
            found = await group.all(
                lambda m, a=arrays, c=codec: m.all_reduce(a[m.rank], ReduceOptions(codec=c, in_place=True))
            )
            assert all(one is other for one, other in zip(found, arrays, strict=True))
            assert [each.tolist() for each in arrays] == [[expected] * items] * 2


# -- fewer bytes ---------------------------------------------------------------------------------------------


async def test_a_shared_support_of_five_percent_takes_a_tenth_of_the_bytes(make_group: MakeGroup) -> None:
    group = make_group(4)
    arrays = sparse_arrays(4, 300_000, 0.05, "shared")
    sizes = counted_bytes(group)
    await group.all(lambda m: m.all_reduce(arrays[m.rank], ReduceOptions(algorithm="ring")))
    dense_bytes, sizes[:] = sum(sizes), []
    await group.all(lambda m: m.all_reduce(arrays[m.rank], ReduceOptions(algorithm="ring", codec="union")))
    assert sum(sizes) < dense_bytes / 10


@pytest.mark.parametrize("algorithm", list(ALGORITHMS["all_reduce"]))
@pytest.mark.parametrize("size", [2, 5])
async def test_blocks_of_zeros_stay_away_and_the_bits_are_the_same(
    make_group: MakeGroup, size: int, algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "FRAME_BYTES", 1024)  # several parts of several blocks each
    group = make_group(size)
    arrays = sparse_arrays(size, 9001, 0.4, "independent")
    for array in arrays:
        array[np.arange(9001) // 1000 % 3 != 0] = 0  # what is left of each 3,000 lies in at most 5 blocks
    arrays[0][9000] = 1  # the only item of the last block, which is not whole
    dense, coded, reports = await both(group, arrays, "blocks", algorithm)
    assert all(same_numbers(each, dense[0]) for each in coded)
    assert {(report.way, report.lossless) for report in reports} == {("blocks", True)}
    assert reports[0].dense_items == 4 * 256 + 5 * 256 + 5 * 256 + 41


async def test_rows_of_zeros_do_not_travel_by_blocks(make_group: MakeGroup) -> None:
    """Rows 0, 3 and 40 of an embedding's gradient, the last of which lies in two blocks."""
    group = make_group(4)
    arrays = [np.zeros((1000, 100), np.float32) for _ in range(4)]
    for rank, array in enumerate(arrays):
        array[3] = rank + 1
        array[40 * (rank % 2)] = 0.5
    sizes = counted_bytes(group)
    dense = await group.all(lambda m: m.all_reduce(arrays[m.rank], ReduceOptions(algorithm="ring")))
    dense_bytes, sizes[:] = sum(sizes), []
    found = await group.all(
        lambda m: m.all_reduce(arrays[m.rank], ReduceOptions(algorithm="ring", codec="blocks"))
    )
    assert [each.tobytes() for each in found] == [each.tobytes() for each in dense]
    assert found[0][3].tolist() == [10.0] * 100
    assert group.members[0].sums[-1].dense_items == 4 * 256  # items 0-99, 300-399 and 4000-4099
    assert sum(sizes) < dense_bytes / 20


@pytest.mark.parametrize("items", [1, 255, 256, 257, 2049, 5000])
def test_bits_beyond_the_last_item_do_not_count(items: int) -> None:
    bitmap = np.zeros((items + 7) // 8, np.uint8)
    bitmap[-1] = 0x80 >> ((items - 1) % 8)  # the last item alone
    blocks = blocks_of(bitmap)
    assert int(np.unpackbits(blocks).sum()) == 1
    assert np.flatnonzero(np.unpackbits(items_of(blocks, items))).tolist() == list(
        range((items - 1) // 256 * 256, items)
    )
    blocks[:] = 0xFF  # as a member may send it
    assert int(np.unpackbits(items_of(blocks, items)).sum()) == items


async def test_counts_travel_as_bytes(make_group: MakeGroup) -> None:
    group = make_group(2)
    arrays = [np.random.default_rng(rank).integers(-9, 10, 50_000).astype(np.float32) for rank in range(2)]
    sizes = counted_bytes(group)
    _, found, reports = await both(group, arrays, "integers")
    assert sum(sizes) < 2 * 1.1 * arrays[0].nbytes * (1 + 1 / 4)  # the dense one, then a quarter of it
    assert reports[0].why.startswith("196 of 196 blocks as int8")
    assert np.asarray(found[0]).tobytes() == (arrays[0] + arrays[1]).tobytes()


async def test_a_report_counts_what_was_sent_beside_what_a_dense_sum_sends(make_group: MakeGroup) -> None:
    group = make_group(4)
    arrays = sparse_arrays(4, 100_000, 0.02, "shared")
    counted = counted_bytes(group)
    await group.all(lambda m: m.all_reduce(arrays[m.rank], ReduceOptions(algorithm="ring", codec="union")))
    reports = [member.sums[-1] for member in group.members]
    told = sum(report.sent_bytes for report in reports)
    assert 0 < told <= sum(counted) < 1.1 * told + 4 * 3 * 1100  # the form of the value goes before
    # around a ring, each sends its quarter three times on the way to the sum, and three times after it
    assert {report.dense_bytes for report in reports} == {600_000}
    assert all(10 < report.dense_bytes / report.sent_bytes < 50 for report in reports)
    assert "bytes, where a dense sum sends 600,000" in str(reports[0])


@pytest.mark.parametrize("codec", ["auto", "union", "blocks", "integers", "int16", "sketch", "agreed"])
async def test_memory_is_bounded_by_a_few_times_the_array(make_group: MakeGroup, codec: str) -> None:
    group = make_group(3)
    arrays = sparse_arrays(3, 200_000, 0.4, "half")
    tracemalloc.start()
    try:
        await group.all(lambda m: m.all_reduce(arrays[m.rank], ReduceOptions(codec=codec, algorithm="ring")))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # for each member: places, of 8 bytes, twice; values, a copy of them, the result; and what is on the way
    assert peak < 3 * 9 * arrays[0].nbytes


# -- bounds --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("codec", "op"), [("int8", "sum"), ("int16", "mean"), ("int32", "sum")])
async def test_a_lossy_sum_keeps_the_bound_that_it_states(make_group: MakeGroup, codec: str, op: str) -> None:
    group = make_group(3)
    random = np.random.default_rng(4)
    arrays = [random.normal(size=2000).astype(np.float32) for _ in range(3)]
    arrays[1][700] = np.nan
    arrays[2][1999] = -0.0
    found = await group.all(lambda m: m.all_reduce(arrays[m.rank], ReduceOptions(op, codec=codec)))
    report = group.members[1].sums[-1]
    exact: Any = np.sum(arrays, axis=0, dtype=np.float64) / (3 if op == "mean" else 1)
    assert not report.lossless
    assert 0 < report.bound < 1
    ordinary = np.isfinite(exact)
    for each in found:
        assert isinstance(each, np.ndarray)
        assert np.abs(each[ordinary] - exact[ordinary]).max() <= report.bound + 4e-7
        assert np.isnan(each[700])
    assert report.dense_items == 256 + 2000 % 256  # two blocks that no integers can hold
    assert "2 blocks with NaN, infinity, -0.0 or subnormal numbers go as floats" in str(report)


# -- the choice ----------------------------------------------------------------------------------------------


def slow(group: Group, rate_bytes_per_s: float = 1e6) -> None:
    figures = Costs(((LinkFigures(0.0005, rate_bytes_per_s),) * group.network.size,) * group.network.size)
    for member in group.members:
        member.flat.agree(figures, None)


def noise(items: int, rank: int) -> np.ndarray:
    return np.random.default_rng(rank).normal(size=items).astype(np.float32)


def counts(items: int, rank: int) -> np.ndarray:
    return np.random.default_rng(rank).integers(-3, 4, items).astype(np.float32)


def rare(items: int, rank: int) -> np.ndarray:
    return np.where(np.arange(items) % 100 == 7, noise(items, rank), 0)


@pytest.mark.parametrize(
    ("make", "items", "way", "why"),
    [
        (noise, 200_000, "dense", "about 100.0% of the items are not zero at some member"),
        (counts, 200_000, "integers", "and they are integers"),
        (rare, 200_000, "union", "quicker than dense"),
        (rare, 500, "dense", "2,000 bytes are too few to ask"),
    ],
)
async def test_auto_chooses_by_what_all_have(
    make_group: MakeGroup, make: Callable[[int, int], np.ndarray], items: int, way: str, why: str
) -> None:
    group = make_group(3)
    slow(group)
    arrays = [make(items, rank) for rank in range(3)]
    dense, coded, reports = await both(group, arrays, "auto")
    assert {report.way for report in reports} == {way}
    assert all(why in str(report) for report in reports)
    assert all(same_numbers(each, dense[0]) for each in coded)


async def test_auto_is_not_misled_by_places_that_it_did_not_look_at(make_group: MakeGroup) -> None:
    group = make_group(2)
    slow(group)
    looked = (np.arange(SAMPLE, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) % np.uint64(100_000)
    arrays = [noise(100_000, rank) for rank in range(2)]
    for array in arrays:
        array[looked] = 0
    dense, coded, reports = await both(group, arrays, "auto")
    assert reports[0].way == "dense"
    assert "but it was 9" in reports[0].why
    assert all(same_numbers(each, dense[0]) for each in coded)


async def test_auto_asks_again_at_longer_and_longer_intervals(make_group: MakeGroup) -> None:
    group = make_group(2)
    slow(group)
    calls: list[str] = []
    sizes = counted_bytes(group)
    for index in range(18):
        arrays = [(rare if index < 16 else noise)(50_000, rank) for rank in range(2)]
        sizes.clear()
        found = await group.all(lambda m, a=arrays: m.all_reduce(a[m.rank], ReduceOptions(codec="auto")))
        assert all(same_numbers(each, arrays[0] + arrays[1]) for each in found)
        asked = "?" if 528 in sizes else ""
        calls.append(f"{group.members[1].sums[-1].way}{asked}")
    # when the arrays have become dense, the union shows it, and the next questions do
    unions = ["union?", "union?", "union", "union?", *3 * ["union"], "union?", *7 * ["union"], "union?"]
    assert calls == [*unions, "dense", "dense"]


async def test_on_dense_values_auto_sends_what_the_dense_ring_does_and_a_few_questions(
    make_group: MakeGroup,
) -> None:
    """Counted, since no clock can tell a difference so small: one round of questions in calls 1, 2 and 4."""
    group = make_group(4)
    slow(group, 12.5e6)
    arrays = [noise(1_000_000, rank) for rank in range(4)]
    sizes = counted_bytes(group)
    await group.all(lambda m: m.all_reduce(arrays[m.rank], ReduceOptions(algorithm="ring")))
    dense, more = sorted(sizes), []
    for _ in range(5):
        sizes.clear()
        await group.all(lambda m: m.all_reduce(arrays[m.rank], ReduceOptions(algorithm="ring", codec="auto")))
        assert group.members[0].sums[-1].way == "dense"
        assert sorted(sizes)[-len(dense) :] == dense
        for member in group.members:  # as beside others that compute: no reason to look for zeros
            next(iter(member.flat.remembered["automatic"].values())).seconds["dense"] = 10.0
        more.append(sorted(sizes)[: -len(dense)])
    questions = 4 * 3 * [528]
    assert more == [questions, questions, [], questions, []]
    choice = group.members[0].flat.choice
    asking_s, dense_s = choice.best("all_gather", 4 * 528), choice.best("all_reduce", 4_000_000)
    assert asking_s.predicted_s < 0.005 * dense_s.predicted_s


async def test_auto_goes_by_what_a_way_has_taken(make_group: MakeGroup) -> None:
    """Predictions know nothing of busy CPUs: here one member needs a second for each union."""
    group = make_group(2)
    slow(group, 20e6)
    arrays = [rare(200_000, rank) for rank in range(2)]
    ways = []
    for _ in range(3):
        found = await group.all(lambda m: m.all_reduce(arrays[m.rank], ReduceOptions(codec="auto")))
        assert all(same_numbers(each, arrays[0] + arrays[1]) for each in found)
        ways.append(group.members[0].sums[-1].way)
        (course,) = group.members[1].flat.remembered["automatic"].values()
        course.seconds["union"] = 1.0
    assert ways == ["union", "dense", "dense"]
    assert group.members[0].sums[-1].predicted_s["union"] == 1.0


async def test_auto_goes_by_the_links(make_group: MakeGroup) -> None:
    group = make_group(2)
    slow(group, 50e9)
    arrays = [rare(400_000, rank) for rank in range(2)]
    _, _, reports = await both(group, arrays, "auto")
    assert reports[0].way == "dense"
    seconds = predictions(group.members[0].flat.choice, 400_000, BY_NAME["float32"], 0.01)
    assert seconds["dense"] < seconds["union"]
    too_few = '  codec "auto" takes dense: 1,600,000 bytes are too few to ask the others what theirs are like'
    assert explained(group, 1_600_000, 0.01) == ["> codec dense", "  codec union", too_few]
    slow(group)
    assert explained(group, 1_600_000, 0.05) == [
        "  codec dense",
        "> codec union",
        '  codec "auto" takes union: 5.0% of the items are not zero at some member: quicker than dense',
    ]
    dense = explained(group, 1_600_000, 0.95)
    assert dense[:2] == ["> codec dense", "  codec union"]
    assert dense[2].endswith(
        "95.0% of the items are not zero at some member; nothing else promises to be quicker"
    )
    with pytest.raises(ValueError):
        group.members[0].explain("broadcast", 8, density=0.5)


def explained(group: Group, size_bytes: int, density: float) -> list[str]:
    """What is said of codecs, without the times."""
    lines = str(group.members[0].explain("all_reduce", size_bytes, density=density)).splitlines()
    return [line.partition("    ")[0].rstrip() for line in lines if "codec" in line]


# -- sketches ------------------------------------------------------------------------------------------------


async def test_a_sketch_is_read_whole_and_says_so(make_group: MakeGroup) -> None:
    group = make_group(4)
    arrays = sparse_arrays(4, 60_000, 0.01, "independent")
    union = int(np.count_nonzero(np.any(arrays, axis=0)))
    dense, coded, reports = await both(group, arrays, "sketch")
    assert all(same_numbers(each, dense[0]) for each in coded)
    assert (reports[0].way, reports[0].union_items) == ("sketch", union)
    assert "all were read whole" in reports[0].why
    held_by_three = np.count_nonzero(np.sum([array != 0 for array in arrays], axis=0) > 2)
    assert reports[0].dense_items == held_by_three  # the order of additions matters there


@pytest.mark.parametrize(("first", "then"), [(1, "all were read whole"), (0, "went by union compaction")])
async def test_what_does_not_fit_a_sketch_is_brought_in_another_way(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch, first: int, then: str
) -> None:
    """A sample that saw nothing makes the first sketch too small; a second one as small leaves a rest."""
    group = make_group(3)
    arrays = sparse_arrays(3, 60_000, 0.02, "half")
    rounds = []

    def too_small(items: int, load: int, *, seed: int = 0) -> SketchPlan:
        rounds.append(seed)
        return SketchPlan(items, 3, 200 if seed == 0 or not first else 1000, seed)

    monkeypatch.setattr(SketchPlan, "for_load", too_small)
    dense, coded, reports = await both(group, arrays, "sketch")
    assert all(same_numbers(each, dense[0]) for each in coded)
    assert then in reports[0].why
    assert "sketches of 1,800 and" in reports[0].why
    assert {report.union_items for report in reports} == {int(np.count_nonzero(np.any(arrays, axis=0)))}


def test_more_items_than_any_sketch_has_cells_for_make_none() -> None:
    nothing = np.zeros(1, np.int16)
    items = 250_000_000
    terms = SketchTerms(BY_NAME["float32"], items, 2, 2 * items, items, Spans(nothing, nothing))
    assert terms.refusal == "so many items make a sketch that is larger than the array"
    assert SketchPlan.for_load(1 << 40, MAX_LOAD).cells < MAX_CELLS


async def test_numbers_too_far_apart_for_a_sketch_go_by_union(make_group: MakeGroup) -> None:
    group = make_group(2)
    arrays = [np.zeros(3000, np.float32) for _ in range(2)]
    arrays[0][5], arrays[1][5], arrays[1][6] = 1e30, 1e-30, 7.0
    dense, coded, reports = await both(group, arrays, "sketch")
    assert all(same_numbers(each, dense[0]) for each in coded)
    assert (reports[0].way, reports[0].why) == (
        "union",
        "the items' exponents are too far apart for one sketch",
    )


# -- ways that change values ---------------------------------------------------------------------------------


async def test_members_agree_on_the_longest_rows_of_the_sum(make_group: MakeGroup) -> None:
    group = make_group(3)
    arrays = [noise(128 * 100 - 5, rank) * np.float32(0.01) for rank in range(3)]
    for rank, array in enumerate(arrays):  # what is long at one member only is long in the sum
        array[128 * (10 * rank + 4) :][:128] *= 1000
    dense, coded, reports = await both(group, arrays, "agreed:0.03")
    kept = np.repeat(np.isin(np.arange(100), [4, 14, 24]), 128)[: 128 * 100 - 5]
    for found in coded:
        assert isinstance(found, np.ndarray)
        assert same_numbers(found, np.where(kept, np.asarray(dense[0]), 0))
    assert reports[0].left_out_items == 97 * 128 - 5
    for wrong in ("agreed:0", "agreed:2", "agreed:x"):
        with pytest.raises(UnsupportedValue):
            await group.members[0].all_reduce(arrays[0], ReduceOptions(codec=wrong))


async def test_with_a_memory_everything_is_sent_in_the_end(make_group: MakeGroup) -> None:
    group = make_group(2)
    arrays = [noise(128 * 8, rank) for rank in range(2)]
    memories = [np.zeros(128 * 8, np.float32) for _ in range(2)]
    total = np.zeros(128 * 8, np.float32)
    for first in (True, *(False,) * 30):
        given = [array.copy() if first else np.zeros_like(array) for array in arrays]
        await group.all(
            lambda m, g=given: m.all_reduce(
                g[m.rank], ReduceOptions(in_place=True, codec="agreed:0.125"), memory=memories[m.rank]
            )
        )
        total += given[0]
        assert np.count_nonzero(given[0]) <= 128
    assert np.array_equal(total, arrays[0] + arrays[1])
    assert not np.any(memories)


# -- what goes wrong -----------------------------------------------------------------------------------------


async def test_what_a_codec_is_not_for_is_refused_before_anything_is_sent(make_group: MakeGroup) -> None:
    group = make_group(2)
    for codec, value, op in (
        ("union", np.ones(3), "max"),
        ("auto", np.ones(3), "prod"),
        ("integers", np.ones(3, np.int32), "sum"),
        ("int8", np.ones(3, complex), "sum"),
        # floats, which it could sum, come before what it cannot
        ("integers", {"weight": np.ones(3), "steps": np.ones(3, np.int64)}, "mean"),
    ):
        with pytest.raises(UnsupportedValue):
            await group.members[0].all_reduce(value, ReduceOptions(op, codec=codec))
    with pytest.raises(UnsupportedValue, match="not int64; auto and union take both"):
        await group.members[0].all_reduce([1.0, 2], ReduceOptions(codec="int8"))
    with pytest.raises(ValueError, match="codec union sends messages, and 'shared' is no algorithm"):
        await group.members[0].all_reduce(np.ones(3), ReduceOptions(codec="union", algorithm="shared"))
    assert group.members[0].engine.completed == 0
    with pytest.raises(UnknownCodec, match="also auto, union, blocks, integers"):
        await group.members[0].all_reduce(np.ones(3), ReduceOptions(codec="onion"))
    assert await group.all(lambda m: m.all_reduce(1)) == [2, 2]


async def test_members_agree_on_the_codec_of_a_sum(make_group: MakeGroup) -> None:
    for other in (None, "auto", "int8"):
        group = make_group(2)
        found = await group.all(
            lambda m, o=other: m.all_reduce(np.ones(9), ReduceOptions(codec="union" if m.rank else o))
        )
        assert [type(each) for each in found] == [OperationMismatch] * 2
        assert "codec union" in str(found[0])


async def test_a_member_that_changes_the_union_is_found_out(make_group: MakeGroup) -> None:
    """Each end then has values of another number: the sizes are part of what is compared."""
    group = make_group(2)

    def change(of: int, to: int, message: Message) -> Message:
        body = bytes(message.body)
        return Message(message.head, memoryview(b"\xff" * len(body) if of == 1 and len(body) == 2 else body))

    group.network.on_send = change
    arrays = [np.zeros(13, np.float32), np.zeros(13, np.float32)]
    arrays[0][3] = 1.0
    found = await group.all(lambda m: m.all_reduce(arrays[m.rank], ReduceOptions(codec="union")))
    assert [type(each) for each in found] == [OperationMismatch] * 2
    assert arrays[0].tolist() == [0, 0, 0, 1] + 9 * [0]


async def test_bits_beyond_the_last_item_mean_nothing(make_group: MakeGroup) -> None:
    group = make_group(2)
    group.network.on_send = lambda of, to, message: Message(
        message.head, memoryview(bytes([1, 7])) if len(message.body) == 2 else message.body
    )
    arrays = [np.array(13 * [0.0]), np.array(13 * [0.0])]
    arrays[0][7] = arrays[1][7] = 2.0
    found = await group.all(lambda m: m.all_reduce(arrays[m.rank], ReduceOptions(codec="union")))
    assert [each.tolist() for each in found] == [7 * [0] + [4.0] + 5 * [0]] * 2


@pytest.mark.parametrize("codec", ["union", "blocks", "integers", "int16", "auto", "sketch"])
async def test_a_loss_on_the_way_leaves_what_was_given(make_group: MakeGroup, codec: str) -> None:
    group = make_group(3)
    slow(group)
    arrays = [rare(40_000, rank) for rank in range(3)]
    before = [array.copy() for array in arrays]
    sent = 0

    def lose(of: int, to: int, message: Message) -> Message:
        nonlocal sent
        sent += 1
        if sent == 11:
            group.network.lose(2)
        return message

    group.network.on_send = lose
    found = await group.all(lambda m: m.all_reduce(arrays[m.rank], ReduceOptions(codec=codec, in_place=True)))
    assert [type(each) for each in found] == [PeerLost] * 3
    assert all(np.array_equal(one, other) for one, other in zip(arrays, before, strict=True))


# -- by blocks -----------------------------------------------------------------------------------------------


def test_places_are_laid_out_by_the_dense_arrays_blocks() -> None:
    whole = Whole(items=10, blocks=2, part_items=4)  # blocks of 2, 2 | 2, 2 | 1, 1
    assert whole.cuts().tolist() == [[0, 2, 4], [4, 6, 8], [8, 9, 10]]
    places, sizes = by_blocks(np.array([0, 3, 4, 5, 6, 9]), whole)
    assert places.tolist() == [0, 4, 5, 3, 6, 9]
    assert sizes == [3, 3]
    for part, row in enumerate(whole.cuts()):
        assert [whole.pieces(part, [block]) for block in range(2)] == [
            [(row[block], row[block + 1])] for block in range(2)
        ]
