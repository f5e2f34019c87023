"""A torch Store among the members of a group: rank 0 holds it, the others send questions over their links."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import weakref
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from torch._C._distributed_c10d import Store

from duetlink.errors import CallTimeout, DuetError, GroupError, PeerLost, RemoteProtocolError
from duetlink.groups.api.group import Group
from duetlink.groups.lifecycle.life import GroupLife
from duetlink.groups.torch.store_contents import Op, Question, StoreContents, answer_from_wire, answer_to_wire
from duetlink.net.link.link import Link
from duetlink.net.streams.stream import Stream

_PURPOSE = "torch/store"
_KEEPER = 0
_MOST_WAITING = 64  # questions of one member that wait for a key; more are not read from its stream
_GRACE_S = 10.0  # for the answer to arrive after the keeper has given up waiting

_Base: Any = Store

# By group: a second job in a group finds the keys of the first one, as with torch's own stores.
_contents_of: weakref.WeakKeyDictionary[GroupLife, StoreContents] = weakref.WeakKeyDictionary()


class GroupStore(_Base):  # type: ignore[misc]
    """The store for `init_process_group("duetlink", store=GroupStore(group), rank=…, world_size=…)`.

    All members make one. Ranks are those of the group's epoch at that time. The store works as long as the
    link to rank 0. Keys are texts, values are texts or bytes; `store_contents.py` has their limits.
    """

    def __init__(self, group: Group, *, owned: bool = False) -> None:
        """Wait until the group is ready. If `owned`, the group is closed at the end of the job.

        Raises:
            OperationRefused: the group was opened or joined with `only=`, which never allows a torch job.
            AuditUnavailable: the audit log cannot be written.
            DuetError: the group is closed, or cannot begin.
        """
        super().__init__()
        group._operations.check("torch.distributed", "torch.distributed")
        group.wait_ready()
        self.group = group
        self.owned = owned
        self._thread = group._thread
        life = group._life
        now = life.member_state
        assert now is not None
        self.seats = now.epoch.members
        self.rank = self.seats.index(now.me)
        self.size = len(self.seats)
        # the reports on sums of the current epoch, to which the job adds its own
        self.sums = None if life.collectives is None else life.collectives.sums
        self._life = life
        self._thread.run(self._begin())
        self._thread.run(group._operations.note("torch.distributed", None))

    def link(self, rank: int) -> Link:
        """Return the link to that rank. Raises PeerLost if it is gone."""
        peer = self._life.peers.get(self.seats[rank])
        if peer is None or peer.link is None:
            name = self._life.roster.entries[self.seats[rank]].name
            raise PeerLost(f"there is no link to rank {rank} ({name}) any more", rank=rank, name=name)
        return peer.link

    def before_close(self, end: Callable[[], Awaitable[None]]) -> None:
        """Await `end` before the group closes."""
        self.group._exit.before_close.append(end)

    # -- what torch calls ------------------------------------------------------------------------------------

    def set(self, key: str, value: str | bytes) -> None:
        self._ask(Op.SET, key.encode(), _bytes(value))

    def get(self, key: str) -> bytes:
        """Wait until the key is set, and return its value. Raises GroupError after the store's timeout."""
        return self._ask(Op.GET, key.encode())

    def add(self, key: str, value: int) -> int:
        return int(self._ask(Op.ADD, key.encode(), b"%d" % value))

    def compare_set(self, key: str, expected: str | bytes, desired: str | bytes) -> bytes:
        return self._ask(Op.COMPARE_SET, key.encode(), _bytes(expected), _bytes(desired))

    def check(self, keys: list[str]) -> bool:
        return self._ask(Op.CHECK, *(key.encode() for key in keys)) == b"1"

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys are set. Raises GroupError after `timeout`, by default the store's."""
        self._ask(Op.WAIT, *(key.encode() for key in keys), timeout=timeout)

    def delete_key(self, key: str) -> bool:
        return self._ask(Op.DELETE, key.encode()) == b"1"

    def num_keys(self) -> int:
        return int(self._ask(Op.COUNT))

    # C++ looks for these two under its own names
    deleteKey = delete_key  # noqa: N815
    getNumKeys = num_keys  # noqa: N815

    # -- the keeper's side -----------------------------------------------------------------------------------

    async def _begin(self) -> None:
        self._asking = asyncio.Lock()
        self._numbers = itertools.count()
        self._stream: Stream | None = None
        self._answers: dict[int, asyncio.Future[bytes]] = {}
        self._reader: asyncio.Task[None] | None = None
        self._contents: StoreContents | None = None
        if self.rank == _KEEPER:
            self._contents = _contents_of.setdefault(self._life, StoreContents())
            for rank in range(1, self.size):
                self.link(rank).streams.on_open(_PURPOSE, self._serve)

    async def _serve(self, stream: Stream) -> None:
        """Answer the questions on one member's stream, until it ends or a question is malformed."""
        room = asyncio.Semaphore(_MOST_WAITING)
        answering: set[asyncio.Task[None]] = set()
        try:
            while True:
                question = Question.from_wire(await stream.receive())
                await room.acquire()
                task = asyncio.ensure_future(self._answer(stream, question, room))
                answering.add(task)
                task.add_done_callback(answering.discard)
        except RemoteProtocolError as error:
            stream.close(str(error))
        finally:
            for task in answering:
                task.cancel()

    async def _answer(self, stream: Stream, question: Question, room: asyncio.Semaphore) -> None:
        assert self._contents is not None
        failed = False
        try:
            value = await self._contents.answer(question.op, question.fields, question.patience_s)
        except GroupError as error:
            value, failed = str(error).encode(), True
        finally:
            room.release()
        head, body = answer_to_wire(question.number, value, failed=failed)
        with contextlib.suppress(DuetError):
            await stream.send(head, memoryview(body))

    # -- the others' side ------------------------------------------------------------------------------------

    def _ask(self, op: Op, *fields: bytes, timeout: timedelta | None = None) -> bytes:
        patience_s = (self.timeout if timeout is None else timeout).total_seconds()
        return self._thread.run(self._asked(op, fields, patience_s))

    async def _asked(self, op: Op, fields: tuple[bytes, ...], patience_s: float) -> bytes:
        if self._contents is not None:
            return await self._contents.answer(op, fields, patience_s)
        try:
            async with asyncio.timeout(patience_s + _GRACE_S):
                stream = await self._opened()
                question = Question(op, next(self._numbers) % 2**32, patience_s, fields)
                answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
                self._answers[question.number] = answer
                try:
                    head, body = question.to_wire()
                    await stream.send(head, memoryview(body))
                    return await answer
                finally:
                    del self._answers[question.number]
        except TimeoutError as error:
            if isinstance(error, DuetError):
                raise
            raise GroupError(
                f"Timed out after {patience_s:g} s: rank 0, which keeps the store, is silent"
            ) from None

    async def _opened(self) -> Stream:
        """Return the stream to the keeper; tries until the keeper, which may begin later, accepts it."""
        async with self._asking:
            while self._stream is None or self._stream.closed:
                try:
                    self._stream = await self.link(_KEEPER).streams.open(_PURPOSE)
                except CallTimeout:
                    continue
                self._reader = asyncio.ensure_future(self._read(self._stream))
            return self._stream

    async def _read(self, stream: Stream) -> None:
        try:
            while True:
                number, value, failed = answer_from_wire(await stream.receive())
                answer = self._answers.get(number)
                if answer is not None and not answer.done():
                    if failed:
                        answer.set_exception(GroupError(value.decode("utf-8", "replace")))
                    else:
                        answer.set_result(value)
        except DuetError as error:
            stream.close("the answers have ended")
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(
                        PeerLost(f"the store is gone with rank 0: {error}", rank=_KEEPER, name="")
                    )


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)
