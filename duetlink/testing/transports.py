"""Transports within one process, to test operations of groups, and the contract of every transport."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable

import pytest

from duetlink.errors import PeerLost
from duetlink.groups.links.transport import Message, Transport

MAX_WAITING = 8  # messages between two members; a sender waits while the queue is full


class MemoryNetwork:
    """Connects `size` members within one event loop. A test can lose members, and watch or alter messages.

    `on_send`, if set, is called as `on_send(sender, receiver, message)` before each message leaves, and
    returns the message that is delivered instead. It may call `lose`, or raise an error, which `send` then
    raises.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.on_send: Callable[[int, int, Message], Message] | None = None
        self._lost: PeerLost | None = None
        self._queues: dict[tuple[int, int], deque[Message]] = {}
        self._changed = asyncio.Event()
        self.transports = [MemoryTransport(self, rank) for rank in range(size)]

    def lose(self, rank: int) -> None:
        """End the member: every pending and later `send` and `receive` of all members raises `PeerLost`."""
        self._lost = PeerLost(f"rank {rank} (member {rank}) is gone", rank=rank, name=f"member {rank}")
        self._notify()

    async def send(self, of: int, to: int, message: Message) -> None:
        if self.on_send is not None:
            message = self.on_send(of, to, message)
        queue = self._queues.setdefault((of, to), deque())
        while len(queue) >= MAX_WAITING and self._lost is None:
            await self._changed.wait()
        self._check()
        queue.append(Message(message.head, memoryview(bytes(message.body))))
        self._notify()

    async def receive(self, of: int, at: int) -> Message:
        queue = self._queues.setdefault((of, at), deque())
        while not queue and self._lost is None:
            await self._changed.wait()
        self._check()
        message = queue.popleft()
        if len(queue) == MAX_WAITING - 1:
            self._notify()
        return message

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _check(self) -> None:
        if self._lost is not None:
            raise PeerLost(str(self._lost), rank=self._lost.rank, name=self._lost.name)


class MemoryTransport:
    """One member's end of a `MemoryNetwork`."""

    def __init__(self, network: MemoryNetwork, rank: int) -> None:
        self.rank = rank
        self.size = network.size
        self._network = network

    async def send(self, to: int, head: bytes, body: memoryview) -> None:
        assert to != self.rank
        await self._network.send(self.rank, to, Message(head, body))

    async def receive(self, of: int) -> Message:
        return await self._network.receive(of, self.rank)


class TransportContract(ABC):
    """Tests of one transport. A subclass implements how members are connected, and how one is lost.

        class TestMine(TransportContract):
            async def connect(self, size): ...
            async def lose(self, rank): ...

    Its tests are coroutines: they need pytest-asyncio in its automatic mode.
    """

    @abstractmethod
    async def connect(self, size: int) -> list[Transport]:
        """Return `size` members of one epoch, ordered by rank. The subclass closes them after the test."""

    @abstractmethod
    async def lose(self, rank: int) -> None:
        """End that member as a killed process would."""

    async def test_members_know_their_rank_and_their_number(self) -> None:
        members = await self.connect(3)
        assert [(member.rank, member.size) for member in members] == [(0, 3), (1, 3), (2, 3)]

    async def test_messages_arrive_in_order_and_unchanged(self) -> None:
        members = await self.connect(3)
        bodies = [bytes([index]) * (index * 4001) for index in range(6)]
        for index, body in enumerate(bodies):
            await members[0].send(2, b"head %d" % index, memoryview(body))
        got = [await members[2].receive(0) for _ in bodies]
        assert [message.head for message in got] == [b"head %d" % index for index in range(6)]
        assert [bytes(message.body) for message in got] == bodies

    async def test_both_ways_and_all_pairs_at_once(self) -> None:
        members = await self.connect(3)
        pairs = [(a, b) for a in range(3) for b in range(3) if a != b]
        body = bytes(range(256)) * 1024

        async def there(a: int, b: int) -> None:
            await members[a].send(b, b"%d>%d" % (a, b), memoryview(body))

        async def back(a: int, b: int) -> tuple[bytes, bool]:
            message = await members[b].receive(a)
            return message.head, bytes(message.body) == body

        done = await asyncio.gather(*(there(*pair) for pair in pairs), *(back(*pair) for pair in pairs))
        assert done[len(pairs) :] == [(b"%d>%d" % pair, True) for pair in pairs]

    async def test_sends_that_are_awaited_at_once_leave_in_the_order_of_the_calls(self) -> None:
        members = await self.connect(2)
        sends = [
            asyncio.ensure_future(members[0].send(1, b"%d" % index, memoryview(bytes(300_000 - index))))
            for index in range(20)
        ]
        heads = [(await members[1].receive(0)).head for _ in sends]
        await asyncio.gather(*sends)
        assert heads == [b"%d" % index for index in range(20)]

    async def test_memory_may_be_changed_once_send_returns(self) -> None:
        members = await self.connect(2)
        body = bytearray(b"before" * 1000)
        await members[0].send(1, b"", memoryview(body))
        body[:] = b"after." * 1000
        assert bytes((await members[1].receive(0)).body) == b"before" * 1000

    async def test_a_sender_waits_for_a_receiver_that_is_far_behind(self) -> None:
        members = await self.connect(2)
        body = memoryview(bytes(8 * 1024 * 1024))
        sent = 0

        async def send_on() -> None:
            nonlocal sent
            for _ in range(32):  # 256 MiB: more than may ever be in flight
                await members[0].send(1, b"", body)
                sent += 1

        sending = asyncio.ensure_future(send_on())
        done, _ = await asyncio.wait([sending], timeout=0.5)
        assert not done
        assert sent < 32
        for _ in range(32):
            assert len((await members[1].receive(0)).body) == len(body)
        await sending

    async def test_a_receive_that_was_cancelled_loses_nothing(self) -> None:
        members = await self.connect(2)
        receiving = asyncio.ensure_future(members[1].receive(0))
        await asyncio.sleep(0)
        receiving.cancel()
        await asyncio.wait([receiving])
        await members[0].send(1, b"still here", memoryview(b""))
        assert (await members[1].receive(0)).head == b"still here"

    async def test_a_loss_ends_what_waits_at_all_others_and_says_whose_it_is(self) -> None:
        members = await self.connect(3)
        waiting = [asyncio.ensure_future(members[rank].receive(1 - rank)) for rank in (0, 1)]
        await asyncio.sleep(0)
        await self.lose(2)
        for receiving in waiting:
            with pytest.raises(PeerLost) as caught:
                await receiving
            assert caught.value.rank == 2
        with pytest.raises(PeerLost):
            await members[0].send(1, b"", memoryview(b"x" * 100))
