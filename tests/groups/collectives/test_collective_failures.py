"""Operations that fail: a typed error at each member that says why, inputs as they were, and no hang."""

from __future__ import annotations

import asyncio
import itertools
import random
import re
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

from duetlink.base.runtime.off_loop import off_loop
from duetlink.errors import (
    LimitExceeded,
    LinkClosed,
    OperationAborted,
    OperationMismatch,
    PeerLost,
    RemoteProtocolError,
)
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.collectives.execution import engine, schedule_run
from duetlink.groups.collectives.execution.frame import Abort, Cause, Kind, Numbered, Offer, Piece, parse
from duetlink.groups.collectives.reduce_options import ReduceOptions
from duetlink.groups.links.transport import Message
from duetlink.testing.faults import set_constants
from tests.groups.collectives.conftest import Group, MakeGroup

Call = Callable[[Collectives], Awaitable[object]]

CALLS: dict[str, Call] = {
    "sum": lambda m: m.all_reduce(np.ones(5, np.float32), call="a.py:1"),
    "max": lambda m: m.all_reduce(np.ones(5, np.float32), ReduceOptions("max"), call="b.py:2"),
    "longer": lambda m: m.all_reduce(np.ones(6, np.float32), call="c.py:3"),
    "wider": lambda m: m.all_reduce(np.ones(5, np.float64), call="d.py:4"),
    "ring": lambda m: m.all_reduce(np.ones(5, np.float32), ReduceOptions(algorithm="ring"), call="e.py:5"),
    "reduce": lambda m: m.reduce(np.ones(5, np.float32), 1, call="f.py:6"),
    "broadcast": lambda m: m.broadcast(np.ones(5), 0, call="g.py:7"),
    "gather": lambda m: m.gather(np.ones(5), 0, call="h.py:8"),
    "scatter": lambda m: m.scatter([1] * m.size, 0, call="i.py:9"),
    "all_to_all": lambda m: m.all_to_all([1] * m.size, call="j.py:10"),
    "barrier": lambda m: m.barrier(call="k.py:11"),
}


async def refused(group: Group, calls: list[Call]) -> list[OperationMismatch]:
    """The errors of members that call these, within one more operation at most."""
    found = await group.all(lambda m: calls[m.rank](m))
    found = [
        each if isinstance(each, Exception) else later
        for each, later in zip(found, await group.all(lambda m: m.barrier()), strict=True)
    ]
    assert all(isinstance(each, OperationMismatch) for each in found), found
    return [each for each in found if isinstance(each, OperationMismatch)]


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(CALLS, 2)))
async def test_two_members_that_call_different_things_both_hear_of_both(
    make_group: MakeGroup, one: str, other: str
) -> None:
    errors = await refused(make_group(2), [CALLS[one], CALLS[other]])
    for error in errors:
        for rank, name in enumerate((one, other)):
            place = f"{'abcdefghijk'[list(CALLS).index(name)]}.py:{list(CALLS).index(name) + 1}"
            assert f"rank {rank} (member {rank}): " in str(error)
            assert f"at {place}" in str(error)


async def test_what_the_text_says(make_group: MakeGroup) -> None:
    errors = await refused(make_group(2), [CALLS["sum"], CALLS["wider"]])
    assert (
        str(errors[0])
        == str(errors[1])
        == (
            "the members called different operations. "
            "rank 0 (member 0): all_reduce(float32[5], sum, butterfly) at a.py:1; "
            "rank 1 (member 1): all_reduce(float64[5], sum, butterfly) at d.py:4. "
            "Call the same ones, in the same order"
        )
    )
    first = {"w": np.ones((3, 4), np.float32), "b": np.ones(4)}
    renamed = {"w": np.ones((3, 4), np.float32), "bias": np.ones(4)}
    words = "2 arrays (float32[3, 4], float64[4]) of 80 bytes, "
    for value, same in ((renamed, "shapes"), ({**first, "b": np.ones((1, 4))}, "keys")):
        group = make_group(2)
        calls: list[Any] = [lambda m: m.all_reduce(first), lambda m, v=value: m.all_reduce(v)]
        found = (await refused(group, calls))[0]
        digests = {part: re.findall(rf"{part} ([0-9a-f]{{8}})", str(found)) for part in ("keys", "shapes")}
        assert [part for part, (one, other) in digests.items() if one == other] == [same]
        assert words in str(found)
        assert "bias" not in str(found)


@pytest.mark.parametrize("size", [3, 5])
async def test_one_of_many_calls_something_else(
    make_group: MakeGroup, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "WAIT_S", 0.05)
    for odd in range(size):
        for name in ("reduce", "scatter", "barrier", "longer"):
            calls = [CALLS["sum"]] * size
            calls[odd] = CALLS[name]
            for error in await refused(make_group(size), calls):
                assert f"rank {odd} (member {odd})" in str(error)


async def test_an_operation_too_many_is_found_when_the_next_one_comes(make_group: MakeGroup) -> None:
    group = make_group(2)

    async def call(member: Collectives) -> None:
        if member.rank == 0:
            await member.broadcast(1, 0, call="only.py:1")
        await member.barrier(call="all.py:2")

    found = await group.all(call)
    assert [type(each) for each in found] == [OperationMismatch] * 2
    assert all("only.py:1" in str(each) and "all.py:2" in str(each) for each in found)


@pytest.mark.parametrize("after", range(0, 60, 4))
async def test_a_loss_at_any_message_restores_what_was_given(make_group: MakeGroup, after: int) -> None:
    group = make_group(4)
    sent = itertools.count()

    def watch(of: int, to: int, message: Message) -> Message:
        if next(sent) == after:
            group.network.lose(2)
        return message

    group.network.on_send = watch
    given = [np.full(2_000_000, rank, np.float32) for rank in range(4)]
    found = await group.all(
        lambda m: m.all_reduce(given[m.rank], ReduceOptions(in_place=True, algorithm="ring"))
    )
    assert [(type(each), getattr(each, "rank", None)) for each in found] == [(PeerLost, 2)] * 4
    assert [(each.min(), each.max()) for each in given] == [(rank, rank) for rank in range(4)]
    found = await group.all(lambda m: m.barrier())
    assert [type(each) for each in found] == [PeerLost] * 4
    assert all(isinstance(member.broken, PeerLost) for member in group.members)


@pytest.mark.parametrize("name", [name for name in CALLS if name not in ("longer", "wider", "max")])
async def test_a_loss_in_any_operation_is_told_to_all(make_group: MakeGroup, name: str) -> None:
    group = make_group(3)
    calls = [asyncio.ensure_future(CALLS[name](group.members[rank])) for rank in (0, 1)]
    for _ in range(20):
        await asyncio.sleep(0)
    group.network.lose(2)
    found = await asyncio.gather(*calls, return_exceptions=True)
    # who only sends has ended well; its next operation tells
    later = await group.all(lambda m: m.barrier())
    for each, then in zip(found, later, strict=False):
        error = each if isinstance(each, Exception) else then
        assert isinstance(error, PeerLost)
        assert (error.rank, error.name) == (2, "member 2")


async def test_an_operation_that_is_interrupted_ends_everywhere(make_group: MakeGroup) -> None:
    group = make_group(3)
    given = [np.full(300_000, rank, np.float64) for rank in range(3)]
    tasks = [
        asyncio.ensure_future(
            group.members[rank].all_reduce(given[rank], ReduceOptions(in_place=True), call="x.py:3")
        )
        for rank in (0, 1)
    ]
    for _ in range(50):
        await asyncio.sleep(0)
    tasks[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
    text = r"rank 0 \(member 0\) gave up all_reduce\(float64\[300000\], sum.* at x.py:3: it was interrupted"
    with pytest.raises(OperationAborted, match=text):
        await tasks[1]
    with pytest.raises(OperationAborted, match=text):  # had not even begun
        await group.members[2].all_reduce(given[2], ReduceOptions(in_place=True))
    assert [set(each) for each in given] == [{0.0}, {1.0}, {2.0}]


async def test_an_operation_that_waits_for_its_turn_can_be_interrupted(make_group: MakeGroup) -> None:
    group = make_group(2)
    first = asyncio.ensure_future(group.members[0].barrier())
    second = asyncio.ensure_future(group.members[0].barrier())
    await asyncio.sleep(0)
    second.cancel()
    found = await asyncio.gather(first, second, return_exceptions=True)
    assert [type(each) for each in found] == [OperationAborted, asyncio.CancelledError]
    assert [type(each) for each in await group.all(lambda m: m.barrier())] == [OperationAborted] * 2


async def test_a_deadline_is_not_taken_for_a_failure_of_the_engine(make_group: MakeGroup) -> None:
    group = make_group(2)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await group.members[0].barrier()


async def test_a_failure_within_one_member_ends_the_operation_everywhere(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = make_group(2)

    async def broken(of: int, part: int) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(group.members[1].engine, "take", broken)
    found = await group.all(lambda m: m.all_reduce(np.zeros(2_000_000), ReduceOptions(algorithm="naive")))
    assert isinstance(found[1], ZeroDivisionError)
    later = await group.all(lambda m: m.barrier())
    assert isinstance(later[0], OperationAborted)
    assert "rank 1 (member 1) gave up all_reduce(float64[2000000], sum, naive)" in str(later[0])


async def test_closing_ends_what_runs(make_group: MakeGroup) -> None:
    group = make_group(2)
    tasks = [
        asyncio.ensure_future(group.members[0].barrier()),
        asyncio.ensure_future(group.members[0].recv(1)),
    ]
    await asyncio.sleep(0)
    await group.members[0].close()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in found] == [LinkClosed] * 2


# -- hostile members ---------------------------------------------------------------------------------------


def altered(change: Callable[[Message], Message]) -> Callable[[int, int, Message], Message]:
    """Rank 1 sends rank 0 something else in place of the first piece."""
    once = itertools.count()
    return lambda of, to, m: change(m) if (of, to) == (1, 0) and next(once) == 0 else m


@pytest.mark.parametrize(
    "change",
    [
        lambda m: Message(m.head, m.body[:-4]),
        lambda m: Message(m.head, memoryview(bytes(m.body) + b"more")),
        lambda m: Message(m.head, memoryview(b"")),
        lambda m: Message(b"", m.body),
        lambda m: Message(b"\xff" * 40, m.body),
        lambda m: Message(m.head[:10], m.body),
        lambda m: Message(m.head + b"x" * 5000, m.body),
        lambda m: Message(Numbered(Kind.CONTENT, 5).to_wire(), memoryview(b"not asked for")),
        lambda m: Message(Offer(1, 0, 2, 9).to_wire(), memoryview(b"")),
        lambda m: Message(Offer(1, 0, 2**40, 2**30).to_wire(), memoryview(b"")),
        lambda m: Message(Offer(1, 0, 20, 0).to_wire(), memoryview(b"")),
    ],
)
async def test_what_breaks_the_protocol_is_told_with_the_name_of_who_does(
    make_group: MakeGroup, change: Callable[[Message], Message]
) -> None:
    group = make_group(3)
    group.network.on_send = altered(change)
    given = [np.full(1000, rank, np.float32) for rank in range(3)]
    found = await group.all(
        lambda m: m.all_reduce(given[m.rank], ReduceOptions(in_place=True, algorithm="naive"))
    )
    assert isinstance(found[0], RemoteProtocolError)
    assert [type(each) for each in found[1:]] == [OperationAborted] * 2
    assert all("rank 1 (member 1)" in str(each) for each in found[1:])
    assert [set(each) for each in given] == [{0.0}, {1.0}, {2.0}]


async def test_any_head_is_parsed_or_refused() -> None:
    heads = [
        Piece(2**40, 7, b"digest..", "all_reduce(é)").to_wire(),
        Abort(Cause.MISMATCH, "why").to_wire(),
        Offer(1, -2, 2**50, 3).to_wire(),
        Numbered(Kind.GRANT, 4, True).to_wire(),
    ]
    assert [parse(head).to_wire() for head in heads] == heads
    dice = random.Random(1)
    for _ in range(3000):
        head = bytearray(dice.choice(heads))
        for _ in range(dice.randrange(3)):
            head[dice.randrange(len(head))] = dice.randrange(256)
        try:
            parse(bytes(head[: dice.randrange(len(head) + 1)]))
        except RemoteProtocolError:
            continue
    assert parse(Abort(Cause.GIVEN_UP, "\x1b[2J\n").to_wire()) == Abort(Cause.GIVEN_UP, "?[2J?")


async def test_a_message_of_a_form_that_lies_is_refused(make_group: MakeGroup) -> None:
    group = make_group(2)
    for form in (
        b'[0,[["n","float32",281474976710655]]]',
        b'[0,[["n","float32",3]]]',
        b'[0,[["n","object",3]]]',
        b'[["l",0,0],[["n","int8",0]]]',
        b'[["d",["a","a"],0,0],[["n","int8",0],["n","int8",0]]]',
        b'[["l"' * 5000,
        b"\xff",
        b"[]",
        b'[0,[["i","int64",2]]]',
    ):
        await group.members[0].engine.messages.send(1, 0, form, memoryview(b"12345678"))
        with pytest.raises(RemoteProtocolError):
            await group.members[1].recv()
    await group.members[0].send(3, 1)
    assert (await group.members[1].recv()).value == 3


async def test_more_than_the_limit_is_not_received(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = make_group(2)
    small = group.members[1]
    set_constants(monkeypatch, small, limit_bytes=1000)
    found = await group.all(lambda m: m.broadcast(np.zeros(1000) if m.rank == 0 else None, 0))
    assert isinstance(found[1], LimitExceeded)
    assert "8,000 bytes; this group takes 1,000 at once" in str(found[1])
    assert isinstance((await group.all(lambda m: m.barrier()))[0], OperationAborted)


async def test_a_large_message_that_is_refused_or_taken_back(make_group: MakeGroup) -> None:
    group = make_group(2)
    sending = asyncio.ensure_future(group.members[0].send(np.zeros(100_000), 1))
    group.members[1].point_to_point.limit_bytes = 1000
    with pytest.raises(LimitExceeded):
        await group.members[1].recv()
    with pytest.raises(OperationMismatch, match="rank 1 refused a message with tag 0"):
        await sending
    group.members[1].point_to_point.limit_bytes = 10**9
    sending = asyncio.ensure_future(group.members[0].send(np.zeros(100_000), 1))
    await asyncio.sleep(0)
    sending.cancel()
    await asyncio.wait([sending])
    await group.members[0].send("x" and 5, 1)
    assert (await group.members[1].recv()).value == 5


async def test_bytes_that_are_no_bool_become_one(make_group: MakeGroup) -> None:
    group = make_group(2)

    def forge(of: int, to: int, message: Message) -> Message:
        return Message(message.head, memoryview(b"\x02\x00\xff")) if len(message.body) == 3 else message

    group.network.on_send = forge
    for each in await group.all(lambda m: m.all_reduce(np.zeros(3, bool), ReduceOptions(algorithm="naive"))):
        assert isinstance(each, np.ndarray)
        assert each.tobytes() == b"\x01\x00\x01"


def test_a_piece_is_small_on_the_wire() -> None:
    assert len(Piece(1, 2, b"8 bytes.").to_wire()) == 24
    assert struct.unpack_from("<B", Piece(1, 2, b"8 bytes.").to_wire()) == (Kind.PIECE,)


async def test_a_loss_while_the_backup_is_made_is_not_missed(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = make_group(2)
    backing_up = asyncio.Event()
    real = off_loop

    async def slow(size_bytes: int, function: Callable[..., object], *rest: object, **more: int) -> object:
        if getattr(function, "__name__", "") == "keep":  # the items that are restored after a failure
            backing_up.set()
            await asyncio.sleep(0.01)
        return await real(size_bytes, function, *rest, **more)

    monkeypatch.setattr(schedule_run, "off_loop", slow)
    given = np.ones(9)
    summing = asyncio.ensure_future(group.members[0].all_reduce(given, ReduceOptions(in_place=True)))
    await backing_up.wait()
    group.network.lose(1)
    async with asyncio.timeout(60):
        with pytest.raises(PeerLost):
            await summing
    assert (given == 1).all()
