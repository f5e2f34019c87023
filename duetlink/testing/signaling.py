"""The contract of a mailbox: subclass `MailboxContract` and implement how a pair of ends is opened."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from typing import TypeVar

import pytest

from duetlink.errors import DuetError, LinkClosed, SignalingRefused, WrongCode
from duetlink.net.signaling.base import MAX_MESSAGE_BYTES, Mailbox, Mood

TIMEOUT_S = 10.0

T = TypeVar("T")


class MailboxContract(ABC):
    """Tests of `duetlink.net.signaling.Mailbox`; run with pytest-asyncio in auto mode.

    If `open_pair` also opens something else, such as a server, the subclass closes it in a fixture.
    """

    @abstractmethod
    async def open_pair(self) -> tuple[Mailbox, Mailbox]:
        """Return a new owner's end and scientist's end, both connected."""

    async def test_messages_arrive_whole_and_in_order_both_ways(self) -> None:
        owner, scientist = await self.open_pair()
        messages = [b"", b"\x00", b"text", bytes(range(256)) * 16, *(b"%d" % number for number in range(10))]
        for message in messages:
            await owner.send(message)
            await scientist.send(message[::-1])
        assert [await _soon(scientist.receive()) for _ in messages] == messages
        assert [await _soon(owner.receive()) for _ in messages] == [message[::-1] for message in messages]
        await _close(owner, scientist)

    async def test_receive_waits_for_a_message(self) -> None:
        owner, scientist = await self.open_pair()
        receiving = asyncio.ensure_future(scientist.receive())
        await asyncio.wait([receiving], timeout=0.02)
        assert not receiving.done()
        await owner.send(b"late")
        assert await _soon(receiving) == b"late"
        await _close(owner, scientist)

    async def test_a_cancelled_receive_loses_nothing(self) -> None:
        owner, scientist = await self.open_pair()
        for number in range(5):
            receiving = asyncio.ensure_future(scientist.receive())
            await asyncio.wait([receiving], timeout=0.001)
            sending = asyncio.ensure_future(owner.send(b"%d" % number))
            for _ in range(number):  # cancel at different moments of the delivery
                await asyncio.wait([sending], timeout=0)
            receiving.cancel()
            await asyncio.wait([receiving])
            await sending
            message = await _soon(scientist.receive()) if receiving.cancelled() else receiving.result()
            assert message == b"%d" % number
        await _close(owner, scientist)

    async def test_the_largest_message_passes_and_a_larger_one_is_refused(self) -> None:
        owner, scientist = await self.open_pair()
        largest = b"x" * MAX_MESSAGE_BYTES
        await owner.send(largest)
        assert await _soon(scientist.receive()) == largest
        with pytest.raises(SignalingRefused, match=str(MAX_MESSAGE_BYTES)):
            await owner.send(largest + b"x")
        await owner.send(b"still works")
        assert await _soon(scientist.receive()) == b"still works"
        await _close(owner, scientist)

    async def test_what_was_sent_before_closing_arrives_before_the_end(self) -> None:
        owner, scientist = await self.open_pair()
        await owner.send(b"one")
        await owner.send(b"two")
        await _soon(owner.close())
        assert await _soon(scientist.receive()) == b"one"
        assert await _soon(scientist.receive()) == b"two"
        for _ in range(2):
            with pytest.raises(LinkClosed, match="other side"):
                await _soon(scientist.receive())
        await _close(scientist)

    async def test_the_mood_wrong_code_is_told(self) -> None:
        owner, scientist = await self.open_pair()
        await owner.close("wrong-code")
        with pytest.raises(WrongCode, match="burnt"):
            await _soon(scientist.receive())
        await _close(scientist)

    async def test_other_moods_are_told_as_a_closed_link(self) -> None:
        moods: tuple[Mood, ...] = ("happy", "lonely", "errory")
        for mood in moods:
            owner, scientist = await self.open_pair()
            await scientist.close(mood)
            with pytest.raises(LinkClosed):
                await _soon(owner.receive())
            await _close(owner)

    async def test_sending_after_the_other_side_left_ends_in_no_foreign_error(self) -> None:
        owner, scientist = await self.open_pair()
        await scientist.close()
        for _ in range(3):
            try:
                await _soon(owner.send(b"to nobody"))
            except DuetError:
                break
        with pytest.raises(LinkClosed):
            await _soon(owner.receive())
        await _close(owner)

    async def test_closing_ends_a_waiting_receive_and_again_is_harmless(self) -> None:
        owner, scientist = await self.open_pair()
        receiving = asyncio.ensure_future(owner.receive())
        await asyncio.wait([receiving], timeout=0.02)
        await _soon(owner.close())
        await _soon(owner.close("errory"))
        with pytest.raises(LinkClosed, match="this side"):
            await _soon(receiving)
        with pytest.raises(LinkClosed, match="this side"):
            await owner.send(b"x")
        with pytest.raises(LinkClosed, match="this side"):
            await _soon(owner.receive())
        await _close(scientist)

    async def test_no_task_is_left_behind(self) -> None:
        before = asyncio.all_tasks()
        owner, scientist = await self.open_pair()
        async with owner, scientist:
            await owner.send(b"x")
            await _soon(scientist.receive())
        # a server under test in this loop may take a few turns to see both ends go
        async with asyncio.timeout(TIMEOUT_S):
            while left := asyncio.all_tasks() - before - self.own_tasks():
                await asyncio.wait(left, timeout=0.01)

    def own_tasks(self) -> set[asyncio.Task[object]]:
        """Return the tasks that `open_pair` started and that keep running, such as those of a server."""
        return set()


async def _soon(awaitable: Awaitable[T]) -> T:
    async with asyncio.timeout(TIMEOUT_S):
        return await awaitable


async def _close(*mailboxes: Mailbox) -> None:
    for mailbox in mailboxes:
        await _soon(mailbox.close())
