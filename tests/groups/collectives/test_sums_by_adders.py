"""Coded sums towards one root: members between add chunks without decoding them."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

import numpy as np
import pytest

from duetlink.data.codecs.aggregate import Adding
from duetlink.data.codecs.sketch.plan import SketchPlan
from duetlink.errors import (
    LimitExceeded,
    MalformedChunk,
    OperationAborted,
    OperationMismatch,
    PeerLost,
    RemoteProtocolError,
    UnsupportedValue,
)
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.collectives.execution import layout
from duetlink.groups.links.transport import Message
from duetlink.testing.faults import set_constants
from tests.groups.collectives.conftest import Group, MakeGroup
from tests.groups.collectives.test_coded_sums import adversarial, same_numbers, sparse_arrays

CODECS = ("union", "sketch", "integers")


async def dense_and_coded(
    group: Group, arrays: list[np.ndarray], codec: str, root: int, op: str = "sum"
) -> tuple[object, list[object]]:
    """The dense sum up the tree at the root, and what the coded one gives at every member."""
    dense = await group.all(lambda m: m.reduce(arrays[m.rank], root, op, algorithm="tree"))
    return dense[root], await group.all(lambda m: m.reduce(arrays[m.rank], root, op, codec=codec))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [2, 5, 7])
async def test_a_sum_up_the_tree_has_the_dense_sums_bits(
    make_group: MakeGroup, size: int, codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "FRAME_BYTES", 1024)  # many chunks
    group = make_group(size)
    root = size // 2
    for density, support in ((0.0, "shared"), (0.02, "half"), (0.3, "independent"), (1.0, "shared")):
        arrays = sparse_arrays(size, 5001, density, support)
        for op in ("sum", "mean"):
            dense, coded = await dense_and_coded(group, arrays, codec, root, op)
            assert same_numbers(coded[root], dense), (density, op)
            assert coded[:root] + coded[root + 1 :] == [None] * (size - 1)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
async def test_numbers_that_no_integers_can_hold(make_group: MakeGroup, dtype: str) -> None:
    group = make_group(4)
    arrays = adversarial(4, 2000, dtype)
    for codec in CODECS:
        dense, coded = await dense_and_coded(group, arrays, codec, 3)
        assert same_numbers(coded[3], dense), codec


async def test_one_round_of_sketches_is_all_where_the_order_cannot_matter(make_group: MakeGroup) -> None:
    group = make_group(5)
    arrays = [np.zeros(40_000, np.float32) for _ in range(5)]
    for rank, array in enumerate(arrays):
        array[rank::97] = rank - 2
    dense, coded = await dense_and_coded(group, arrays, "sketch", 0)
    assert same_numbers(coded[0], dense)
    report = group.members[0].sums[-1]
    assert (report.way, report.dense_items, report.union_items) == ("sketch", 0, 4 * 413)
    assert "was read whole" in report.why


async def test_a_sketch_that_is_too_full_is_found_out(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = make_group(4)
    arrays = sparse_arrays(4, 20_000, 0.02, "half")
    monkeypatch.setattr(SketchPlan, "for_load", lambda items, load, seed=0: SketchPlan(items, 1, 100, seed))
    dense, coded = await dense_and_coded(group, arrays, "sketch", 1)
    assert same_numbers(coded[1], dense)
    assert (group.members[1].sums[-1].way, group.members[1].sums[-1].why) == (
        "union",
        "what there was did not fit 300 cells",
    )


# -- members that only add -----------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("gives", [[1, 0, 1, 1], [0, 0, 1, 1, 1], [0, 1], [1, 1, 1, 0]])
async def test_a_member_that_gives_nothing_adds_for_the_others(
    make_group: MakeGroup, codec: str, gives: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "FRAME_BYTES", 2048)
    group = make_group(len(gives))
    given = sparse_arrays(sum(gives), 6001, 0.1, "half")
    arrays = [given.pop() if gave else None for gave in gives]
    root = max(rank for rank, gave in enumerate(gives) if gave)
    others = [array for rank, array in enumerate(arrays) if array is not None and rank != root]
    expected = arrays[root]
    if others:
        total = others[0]
        for array in others[1:]:
            total = total + array
        expected = arrays[root] + total
    found = await group.all(lambda m: m.reduce(arrays[m.rank], root, codec=codec))
    assert same_numbers(found[root], expected)
    assert found[:root] == [None] * root
    assert group.members[root].sums[-1].members == sum(gives)
    means = await group.all(lambda m: m.reduce(arrays[m.rank], root, "mean", codec=codec))
    assert expected is not None
    assert same_numbers(means[root], np.divide(expected, np.float32(sum(gives))))


async def test_the_root_receives_the_size_of_one_members_chunks(make_group: MakeGroup) -> None:
    group = make_group(5)
    arrays: list[np.ndarray | None] = [*sparse_arrays(5, 50_000, 0.1, "shared")]
    arrays[2] = None
    received: dict[tuple[int, int], int] = {}

    def watch(of: int, to: int, message: Message) -> Message:
        received[of, to] = received.get((of, to), 0) + len(message.body)
        return message

    group.network.on_send = watch
    await group.all(lambda m: m.reduce(arrays[m.rank], 0, codec="union"))
    of_the_root = arrays[0]
    assert of_the_root is not None
    values_bytes = 4 * np.count_nonzero(of_the_root)
    bitmap_bytes = 50_000 // 8
    assert values_bytes + bitmap_bytes < received[2, 0] < values_bytes + 2 * bitmap_bytes
    assert received[1, 0] + received[3, 0] + received[4, 0] < values_bytes / 4
    told = group.members[4].sums[-1]
    form_bytes = 4 * 1032  # that it has told the others before
    assert told.sent_bytes == sum(size for (of, _), size in received.items() if of == 4) - form_bytes
    assert told.dense_bytes == 200_000


async def test_a_tree_of_kinds_and_one_that_only_adds(make_group: MakeGroup) -> None:
    group = make_group(3)
    value = {"a": np.arange(5, dtype=np.float32), "b": [np.int64(3), np.zeros((2, 2), np.int64)]}
    found = await group.all(lambda m: m.reduce(None if m.rank == 1 else value, 2, codec="union"))
    assert found[:2] == [None, None]
    assert isinstance(found[2], dict)
    assert found[2]["a"].tolist() == [0, 2, 4, 6, 8]
    assert (int(found[2]["b"][0]), found[2]["b"][1].tolist()) == (6, [[0, 0], [0, 0]])


# -- what goes wrong -----------------------------------------------------------------------------------------


async def test_what_cannot_be_summed_by_adders_is_refused(make_group: MakeGroup) -> None:
    group = make_group(2)
    for value, op, codec in (
        (np.ones(3, bool), "sum", "union"),
        (np.ones(3), "max", "union"),
        (np.ones(3, np.int32), "sum", "sketch"),
        (np.ones(3, complex), "sum", "integers"),
    ):
        with pytest.raises(UnsupportedValue):
            await group.members[0].reduce(value, 0, op, codec=codec)
    with pytest.raises(UnsupportedValue):
        await group.members[0].reduce(None, 1)
    with pytest.raises(ValueError, match="no rank 2"):
        await group.members[0].reduce(np.ones(3), 2, codec="union")


async def test_members_whose_calls_differ_all_hear_of_it(make_group: MakeGroup) -> None:
    ones = np.ones(3)
    different: list[list[tuple[np.ndarray | None, int, str, str]]] = [
        [(ones, 0, "sum", "union"), (np.ones(4), 0, "sum", "union")],
        [(ones, 0, "sum", "union"), (ones, 0, "sum", "sketch")],
        [(ones, 0, "sum", "union"), (ones, 1, "sum", "union")],
        [(ones, 0, "sum", "union"), (None, 0, "mean", "union")],
        [(None, 0, "sum", "union"), (ones, 0, "sum", "union")],  # the root gives nothing
    ]
    for calls in different:

        def call(
            member: Collectives, calls: Sequence[tuple[object, int, str, str]] = calls
        ) -> Awaitable[object]:
            value, root, op, codec = calls[member.rank]
            return member.reduce(value, root, op, codec=codec)

        found = await make_group(2).all(call)
        assert [type(each) for each in found] == [OperationMismatch] * 2, calls


async def test_a_member_that_only_adds_takes_no_more_memory_than_it_allows(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = make_group(3)
    set_constants(monkeypatch, group.members[1], limit_bytes=1000)
    arrays = [np.arange(2000.0), None, np.arange(2000.0)]
    found = await group.all(lambda m: m.reduce(arrays[m.rank], 0, codec="union"))
    assert isinstance(found[1], LimitExceeded)
    assert "announced 16,032 bytes of chunks; this group takes 1,000 at once" in str(found[1])
    assert [type(each) for each in (found[0], found[2])] == [OperationAborted] * 2


@pytest.mark.parametrize("at", [0, 7, 12, 30, 60])
async def test_a_chunk_that_is_changed_on_its_way_is_found_out(make_group: MakeGroup, at: int) -> None:
    group = make_group(4)

    def change(of: int, to: int, message: Message) -> Message:
        body = bytearray(message.body)
        if of == 2 and body[:4] == b"DLA1":
            body[at % len(body)] ^= 1
        return Message(message.head, memoryview(bytes(body)))

    group.network.on_send = change
    arrays = [np.arange(20.0), None, np.arange(20.0), np.arange(20.0)]
    found = await group.all(lambda m: m.reduce(arrays[m.rank], 0, codec="union"))
    assert isinstance(found[1], MalformedChunk | LimitExceeded)
    assert [type(found[rank]) for rank in (0, 2, 3)] == [OperationAborted] * 3


async def test_an_adder_that_leaves_a_member_out_is_found_out(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Adding, "add", lambda self, left, right: bytes(left))
    arrays = [np.arange(20.0), None, np.arange(20.0)]
    found = await make_group(3).all(lambda m: m.reduce(arrays[m.rank], 0, codec="union"))
    assert "has those of 1 members, where 2 gave some" in str(found[0])
    assert isinstance(found[0], RemoteProtocolError)


@pytest.mark.parametrize("step", [bytes([9] + 8 * [0]), bytes([2] + 8 * [0]), b"\1" + b"\xff" * 8])
async def test_a_root_that_tells_of_no_such_step_breaks_the_protocol(
    make_group: MakeGroup, step: bytes
) -> None:
    group = make_group(2)
    group.network.on_send = lambda of, to, message: Message(
        message.head, memoryview(step if len(message.body) == 9 else bytes(message.body))
    )
    found = await group.all(lambda m: m.reduce(np.ones(3), 0, codec="union"))
    assert isinstance(found[1], RemoteProtocolError)
    assert isinstance(found[0], OperationAborted)


@pytest.mark.parametrize("codec", ["union", "sketch"])
async def test_a_root_cannot_make_others_unpack_more_than_their_arrays_have_bits(
    make_group: MakeGroup, codec: str
) -> None:
    """Each byte that it tells would take eight of memory."""
    group = make_group(2)
    down = (2).to_bytes(1, "little")

    def change(of: int, to: int, message: Message) -> Message:
        body = bytes(message.body)
        if len(body) == 9 and body[:1] == down:
            body = down + (2**31).to_bytes(8, "little")
        return Message(message.head, memoryview(body))

    group.network.on_send = change
    array = np.zeros(4000)
    array[7] = 1.0
    found = await group.all(lambda m: m.reduce(array, 0, codec=codec))
    assert isinstance(found[1], RemoteProtocolError)
    assert "announced DOWN with 2,147,483,648 bytes, where DOWN with" in str(found[1])


async def test_nothing_at_all(make_group: MakeGroup) -> None:
    group = make_group(3)
    for codec in CODECS:
        found = await group.all(lambda m, c=codec: m.reduce(np.zeros((0, 2)), 0, codec=c))
        assert [getattr(each, "shape", None) for each in found] == [(0, 2), None, None]


async def test_a_loss_in_the_middle_ends_it_for_all(make_group: MakeGroup) -> None:
    group = make_group(4)
    sent = 0

    def lose(of: int, to: int, message: Message) -> Message:
        nonlocal sent
        sent += 1
        if sent == 24:
            group.network.lose(2)
        return message

    group.network.on_send = lose
    arrays: list[np.ndarray | None] = [*sparse_arrays(4, 9000, 0.2, "half")]
    arrays[1] = None
    found = await group.all(lambda m: m.reduce(arrays[m.rank], 0, codec="union"))
    assert [type(each) for each in found] == [PeerLost] * 4
