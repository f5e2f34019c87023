"""Every algorithm, by executing the schedules of all members: who gets what, in what order."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duetlink.groups.collectives.execution.layout import Blocks, Layout, Whole
from duetlink.groups.collectives.schedules.algorithms import ALGORITHMS, schedule
from duetlink.groups.collectives.schedules.schedule import Schedule
from tests.groups.collectives.executed import execute

SIZES = range(1, 10)
COUNTS = (0, 1, 7, 64)
Term = tuple[object, ...]


def made(kind: str, algorithm: str, order: tuple[int, ...], root: int = 0) -> list[Schedule]:
    return [schedule(kind, algorithm, rank, order, root) for rank in range(len(order))]


def whole(count: int, blocks: int) -> Whole:
    return Whole(count, blocks, max(blocks, 10))  # some parts, and a last one that is smaller


def by_member(sizes: list[int]) -> Blocks:
    layout = Blocks.of(sizes, 1)
    return Blocks(layout.bounds, 3)


def names(kind: str) -> list[str]:
    return list(ALGORITHMS[kind])


def run_whole(
    kind: str, algorithm: str, order: tuple[int, ...], arrays: list[list[frozenset[int]]], root: int = 0
) -> None:
    schedules = made(kind, algorithm, order, root)
    layout = whole(len(arrays[0]), schedules[0].blocks)

    def union(left: frozenset[int], right: frozenset[int]) -> frozenset[int]:
        assert not left & right, "somebody's part is added twice"
        return left | right

    execute(schedules, arrays, arrays, [(layout, layout)] * len(order), union)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("algorithm", names("all_reduce"))
def test_all_reduce_adds_every_part_once_at_every_member(algorithm: str, size: int, count: int) -> None:
    arrays = [[frozenset({rank})] * count for rank in range(size)]
    run_whole("all_reduce", algorithm, tuple(range(size)), arrays)
    assert arrays == [[frozenset(range(size))] * count] * size


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("algorithm", names("all_reduce"))
def test_all_members_add_in_the_same_order(algorithm: str, size: int) -> None:
    schedules = made("all_reduce", algorithm, tuple(range(size)))
    layout = whole(23, schedules[0].blocks)
    arrays: list[list[Term]] = [[(rank,)] * 23 for rank in range(size)]
    execute(schedules, arrays, arrays, [(layout, layout)] * size, lambda left, right: (left, right))
    assert all(array == arrays[0] for array in arrays)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("algorithm", names("reduce"))
def test_reduce_adds_every_part_once_at_the_root(algorithm: str, size: int) -> None:
    for root in range(size):
        arrays = [[frozenset({rank})] * 13 for rank in range(size)]
        run_whole("reduce", algorithm, tuple(range(size)), arrays, root)
        assert arrays[root] == [frozenset(range(size))] * 13


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("algorithm", names("broadcast"))
def test_broadcast_brings_the_roots_array_to_all(algorithm: str, size: int) -> None:
    for root in range(size):
        arrays = [[frozenset({rank})] * 13 for rank in range(size)]
        run_whole("broadcast", algorithm, tuple(range(size)), arrays, root)
        assert arrays == [[frozenset({root})] * 13] * size


def labels(size: int, sizes: list[int]) -> list[list[str]]:
    """For each member an array of `size` blocks, all of whose items say whose they are."""
    return [
        [f"{rank}.{block}.{item}" for block in range(size) for item in range(sizes[block])]
        for rank in range(size)
    ]


def uneven(size: int) -> list[int]:
    return [(3 * rank + 5) % 11 for rank in range(size)]  # some are 0


def blocks_of(array: list[str], layout: Blocks) -> list[list[str]]:
    return [array[start:stop] for start, stop in zip(layout.bounds, layout.bounds[1:], strict=False)]


def run_by_member(
    kind: str, algorithm: str, arrays: list[list[str]], sizes: list[int], root: int = 0
) -> Blocks:
    layout = by_member(sizes)
    count = len(arrays)
    both: list[tuple[Layout, Layout]] = [(layout, layout)] * count
    schedules = made(kind, algorithm, tuple(range(count)), root)
    execute(schedules, arrays, arrays, both, lambda left, right: f"({left}+{right})")
    return layout


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("algorithm", names("all_gather"))
def test_all_gather_brings_every_block_to_all(algorithm: str, size: int) -> None:
    sizes = uneven(size)
    arrays = labels(size, sizes)
    expected = [f"{block}.{block}.{item}" for block in range(size) for item in range(sizes[block])]
    run_by_member("all_gather", algorithm, arrays, sizes)
    assert arrays == [expected] * size


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("algorithm", names("gather"))
def test_gather_brings_every_block_to_the_root(algorithm: str, size: int) -> None:
    sizes = uneven(size)
    for root in range(size):
        arrays = labels(size, sizes)
        run_by_member("gather", algorithm, arrays, sizes, root)
        assert arrays[root] == [f"{b}.{b}.{item}" for b in range(size) for item in range(sizes[b])]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("algorithm", names("scatter"))
def test_scatter_brings_each_its_block_of_the_roots(algorithm: str, size: int) -> None:
    sizes = uneven(size)
    for root in range(size):
        arrays = labels(size, sizes)
        layout = run_by_member("scatter", algorithm, arrays, sizes, root)
        own = [blocks_of(array, layout)[rank] for rank, array in enumerate(arrays)]
        assert own == [[f"{root}.{rank}.{item}" for item in range(sizes[rank])] for rank in range(size)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("algorithm", names("reduce_scatter"))
def test_reduce_scatter_adds_every_block_at_its_owner(algorithm: str, size: int) -> None:
    layout = by_member(uneven(size))
    arrays = [[frozenset({rank})] * layout.bounds[-1] for rank in range(size)]
    schedules = made("reduce_scatter", algorithm, tuple(range(size)))
    execute(schedules, arrays, arrays, [(layout, layout)] * size, lambda left, right: left | right)
    for rank, array in enumerate(arrays):
        own = array[layout.bounds[rank] : layout.bounds[rank + 1]]
        assert own == [frozenset(range(size))] * uneven(size)[rank]


@pytest.mark.parametrize("size", SIZES)
def test_all_to_all_turns_rows_into_columns(size: int) -> None:
    counts = [[(2 * of + 3 * to) % 5 for to in range(size)] for of in range(size)]
    layouts = [(by_member(counts[rank]), by_member([row[rank] for row in counts])) for rank in range(size)]
    given = labels_of(counts)
    taken = [[""] * layouts[rank][1].bounds[-1] for rank in range(size)]
    for rank, (rows, columns) in enumerate(layouts):  # what stays is copied by whoever runs the schedule
        taken[rank][columns.bounds[rank] : columns.bounds[rank + 1]] = given[rank][
            rows.bounds[rank] : rows.bounds[rank + 1]
        ]
    execute(made("all_to_all", "pairwise", tuple(range(size))), given, taken, layouts, lambda left, _: left)
    assert taken == [
        [f"{of}>{rank}.{item}" for of in range(size) for item in range(counts[of][rank])]
        for rank in range(size)
    ]


def labels_of(counts: list[list[int]]) -> list[list[str]]:
    return [
        [f"{of}>{to}.{item}" for to, count in enumerate(row) for item in range(count)]
        for of, row in enumerate(counts)
    ]


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_any_order_of_members_any_root_and_any_sizes(data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 9))
    order = tuple(data.draw(st.permutations(range(size))))
    root = data.draw(st.integers(0, size - 1))
    count = data.draw(st.integers(0, 40))
    kind, algorithm = data.draw(
        st.sampled_from(
            [(kind, name) for kind in ("all_reduce", "reduce", "broadcast") for name in names(kind)]
        )
    )
    arrays = [[frozenset({rank})] * count for rank in range(size)]
    run_whole(kind, algorithm, order, arrays, root)
    if kind == "all_reduce":
        assert arrays == [[frozenset(range(size))] * count] * size
    elif kind == "reduce":
        assert arrays[root] == [frozenset(range(size))] * count
    else:
        assert arrays == [[frozenset({root})] * count] * size


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_any_order_of_members_keeps_their_blocks(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(0, 9), min_size=2, max_size=9))
    order = tuple(data.draw(st.permutations(range(len(sizes)))))
    layout = by_member(sizes)
    algorithm = data.draw(st.sampled_from(names("all_gather")))
    arrays = labels(len(sizes), sizes)
    expected = [f"{block}.{block}.{item}" for block in range(len(sizes)) for item in range(sizes[block])]
    execute(
        made("all_gather", algorithm, order),
        arrays,
        arrays,
        [(layout, layout)] * len(sizes),
        lambda left, _: left,
    )
    assert arrays == [expected] * len(sizes)


def sent(schedules: list[Schedule], rank: int) -> int:
    return sum(len(step.blocks) for round_ in schedules[rank].rounds for step in round_.sends)


@pytest.mark.parametrize("size", range(2, 10))
def test_ring_and_halving_send_no_more_than_they_must(size: int) -> None:
    for algorithm, rounds in (("ring", 2 * (size - 1)), ("halving", 2 * math.ceil(math.log2(size)))):
        schedules = made("all_reduce", algorithm, tuple(range(size)))
        assert [sent(schedules, rank) for rank in range(size)] == [
            2 * (size - 1)
        ] * size  # blocks of 1 / size
        assert len(schedules[0].rounds) == rounds


@pytest.mark.parametrize(("size", "rounds"), [(2, 1), (4, 2), (5, 4), (8, 3), (9, 5)])
def test_a_butterfly_takes_two_rounds_more_where_it_folds(size: int, rounds: int) -> None:
    assert len(made("all_reduce", "butterfly", tuple(range(size)))[0].rounds) == rounds


def test_a_block_of_many_frames_is_cut_and_not_lost() -> None:
    layout = Blocks.of([0, 5 * 512 * 1024 + 1, 3], 1)
    assert layout.parts == 6
    assert [layout.pieces(part, (0, 1, 2)) for part in (0, 1, 5)] == [
        [(0, 524288), (2621441, 2621444)],
        [(524288, 1048576)],
        [(2621440, 2621441)],
    ]


def test_neighbours_share_a_frame() -> None:
    assert Blocks.of([4, 4, 4], 4).pieces(0, (2, 0, 1)) == [(8, 12), (0, 8)]
    assert Whole.of(12, 4, 3).pieces(0, (0, 1)) == [(0, 8)]
    assert Whole.of(0, 4, 3).pieces(0, (0, 1)) == [(0, 0)]
