"""Runs collective operations over a transport: one at a time, all members in the same order."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, NoReturn

from duetlink.base.reraise import reraise
from duetlink.errors import (
    DuetError,
    LinkClosed,
    OperationAborted,
    OperationMismatch,
    PeerLost,
    RemoteProtocolError,
)
from duetlink.groups.collectives.execution import frame
from duetlink.groups.collectives.execution.ahead import Ahead
from duetlink.groups.collectives.execution.frame import Abort, Called, Cause, Piece
from duetlink.groups.collectives.execution.messages import Messages
from duetlink.groups.collectives.execution.names import Names
from duetlink.groups.collectives.execution.notices import Notices
from duetlink.groups.collectives.execution.operation import Operation
from duetlink.groups.collectives.execution.schedule_run import ScheduleRun
from duetlink.groups.collectives.execution.spare_memory import SpareMemory
from duetlink.groups.collectives.execution.waiting import Waiting
from duetlink.groups.collectives.execution.work import Work
from duetlink.groups.links.transport import Message, Transport

_REMEMBERED = 16  # ended operations that late frames are compared with
# A member that has waited this long sends its call to all: longer than a round usually takes, and short for
# a person who waits for an error.
WAIT_S = 1.0
_NOTICE_S = 1.0  # a member that takes no frame for this long is about to be lost as well
INTERRUPTED = "it was interrupted, or its time was over"


class Engine:
    """Runs the collective operations of one epoch. Belongs to the loop thread until `close`."""

    def __init__(self, transport: Transport, names: Sequence[str] = (), *, alone: bool = False) -> None:
        """Start one reading task for each other member.

        Set `alone` at all members or at none, where there is no membership: no other layer reports a lost
        member, and no new epoch follows. Then the first member to see a loss reports it to all, and members
        notify a root that they have begun, so that it can wait for them.
        """
        self.rank = transport.rank
        self.size = transport.size
        self.completed = 0  # operations that ended with a result here; also the number of the one that runs
        self.broken: DuetError | None = None
        # of the running call: bytes done, and bytes in all as far as they are known by now
        self.done_bytes = 0
        self.total_bytes = 0
        self.sent_bytes = 0  # bytes of pieces sent, as encoded, since this engine was made
        self.waiting = Waiting()
        self.interruption = INTERRUPTED  # the reason that the others are sent if what runs is cancelled
        self.names = Names(names)
        self._alone = alone
        self.transport = transport
        self._turn = asyncio.Lock()  # fair: the order of the calls
        self._running: Operation | None = None
        self._task: asyncio.Task[Any] | None = None
        self._woken = False  # whether this engine has cancelled what runs
        self._spare = SpareMemory()
        self._announced = 0  # operations before this number have been announced, or need not be
        self._sent_only: list[int] = []  # operations that `wait_begun` waits for the others to begin
        self._has_arrived = asyncio.Event()  # a frame has come from another member, or the engine is broken
        self._asked = -1  # the latest operation that another member has announced to wait in
        self._past: dict[int, Operation] = {}
        self._wanted: dict[tuple[int, int], asyncio.Future[Message]] = {}
        others = [rank for rank in range(self.size) if rank != self.rank]
        self._ahead = {rank: Ahead() for rank in others}
        self.messages = Messages(self.rank, transport.send, self._check)
        loop = asyncio.get_running_loop()
        self._readers = [loop.create_task(self._read(rank)) for rank in others]
        self._notices = Notices(transport, others)

    @property
    def awaited(self) -> tuple[int, ...]:
        """The ranks that the running operation waits for; if some of them have not begun it, only those.

        Any thread may read this.
        """
        awaited = self.waiting.ranks
        silent = tuple(rank for rank in awaited if not self._has_begun(rank))
        return silent or awaited

    @property
    def lateness(self) -> str:
        """A sentence that names the members the running operation waits for.

        A member that sent nothing is late once a waiting member has announced its call, after a second.
        """
        if self._sent_only:
            first = min(self._sent_only)
            missing = [rank for rank, ahead in self._ahead.items() if ahead.latest < first]
            return f"{self.names.have(missing)} not called it"
        awaited = self.awaited
        late = [rank for rank in awaited if not self._has_begun(rank)]
        late = late or [rank for rank in self._ahead if not self._has_begun(rank)]
        if (
            late and self._announced <= self.completed
        ):  # others may wait as well, and not have announced it yet
            return f"nothing has come from {', '.join(self.names[rank] for rank in late)}"
        if late:
            return f"{self.names.have(late)} not called it"
        return f"{self.names.have(awaited)} called it, and not ended it" if awaited else "it is slow"

    def _has_begun(self, rank: int) -> bool:
        return self._ahead[rank].latest >= self.completed

    async def close(self) -> None:
        """Stop the readers. What runs or waits ends with LinkClosed. Safe to call twice."""
        self._break(LinkClosed("this group has been closed"))
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, self._notices.wait_sent(), return_exceptions=True)
        async with self._turn:  # what ran has ended
            pass

    async def perform(self, work: Work) -> None:
        """Run one operation, after those that were called before it.

        If it is cancelled or fails: all members have been notified, its arrays are no longer read or written,
        and `work.taken` has its old content if `work.restore` was set.

        Raises:
            OperationMismatch: members called different operations.
            OperationAborted: another member gave up.
            PeerLost: a member is gone.
            RemoteProtocolError: a member sent what does not belong here.
        """
        self._check()
        try:
            async with self._turn:
                self._check()
                await self._run(work)
        except asyncio.CancelledError:
            self.abandon(work.operation.text, self.interruption)
            raise

    async def wait_begun(self, call: str) -> None:
        """Wait until all others have begun the operation that has just ended here.

        The root of a broadcast only sends, so without this it would end even if no member took the value.
        Other operations may run meanwhile. Raises the error that ends the epoch, if one does.
        """
        sequence = self.completed - 1
        self._sent_only.append(sequence)
        try:
            while any(ahead.latest < sequence for ahead in self._ahead.values()):
                self._check()
                self._has_arrived.clear()
                await self._has_arrived.wait()
        except asyncio.CancelledError:
            self.abandon(call, self.interruption)
            raise
        finally:
            self._sent_only.remove(sequence)

    async def _run(self, work: Work) -> None:
        backup = self._spare.backup(work.taken) if work.restore else None
        task = self._task = asyncio.current_task()
        assert task is not None
        cancelled_before = task.cancelling()
        self._running = work.operation
        self.total_bytes += work.taken.nbytes
        done_bytes = self.done_bytes + work.taken.nbytes
        try:
            for rank in self._ahead:
                self._compare(rank)
            root = work.operation.root
            if self._alone and root is not None and root != self.rank:
                self._notices.send(root, self._called(work.operation))
            if work.run_shared is not None:
                await work.run_shared(work, backup)
            else:
                await ScheduleRun(self, work).run(backup)
            for rank, ahead in self._ahead.items():
                if ahead.has_pieces(self.completed):
                    self._differ(rank, self.completed)
            self._past[self.completed] = work.operation
            self._past.pop(self.completed - _REMEMBERED, None)
            for ahead in self._ahead.values():
                ahead.forget(self.completed)
            self.completed += 1
            self.done_bytes = done_bytes
        except BaseException as error:
            self._task = None
            if backup is not None:
                backup.restore()
            if not isinstance(error, asyncio.CancelledError):
                self.abandon(work.operation.text, error)
            elif self.broken is not None and self._woken and task.uncancel() <= cancelled_before:
                # the engine cancelled the task to wake it; no caller did
                raise reraise(self.broken) from None
            raise
        finally:
            self._spare.trim()
            self._running = self._task = None
            self._wanted.clear()

    # -- what the others send ------------------------------------------------------------------------------

    async def _read(self, of: int) -> None:
        ahead = self._ahead[of]
        try:
            while True:
                message = await self.transport.receive(of)
                match frame.parse(message.head):
                    case Piece() as piece:
                        self._note_sequence(of, piece.sequence)
                        with contextlib.suppress(OperationMismatch):  # all members have been notified by now
                            self._arrived(of, piece, message)
                    case Called() as called:
                        self._note_sequence(of, called.sequence)
                        with contextlib.suppress(OperationMismatch):
                            self._on_called(of, called)
                    case Abort() as abort:
                        self._on_abort(of, abort)
                    case about_message:
                        await self.messages.arrived(of, about_message, message.body)
                await ahead.wait_room()
        except PeerLost as error:
            await self._send_loss_and_wait(error)
            self._break(error)
        except RemoteProtocolError as error:
            self._send_abort(Abort(Cause.GIVEN_UP, f"{self.names[of]} broke the protocol: {error}"))
            self._break(error)
        except DuetError as error:
            self._break(error)
        except Exception as error:  # a defect of ours must end what runs, not leave it waiting
            text = f"{self.names[self.rank]} failed while it read: {type(error).__name__}: {error}"
            self._send_abort(Abort(Cause.GIVEN_UP, text))
            self._break(OperationAborted(text))

    def _note_sequence(self, of: int, sequence: int) -> None:
        self._ahead[of].latest = max(self._ahead[of].latest, sequence)
        self._has_arrived.set()

    def _arrived(self, of: int, piece: Piece, message: Message) -> None:
        if self.broken is not None:
            return
        self._note(of, piece)
        if piece.sequence < self.completed:
            self._differ(of, piece.sequence)
        if piece.sequence == self.completed and self._running is not None:
            self._compare(of)
            waiting = self._wanted.pop((of, piece.part), None)
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
                return
        self._ahead[of].keep(piece, message)

    def _on_called(self, of: int, called: Called) -> None:
        """Handle a notice that a member waits: compare calls, and answer if this member waits too."""
        if self.broken is not None:
            return
        past = self._past.get(called.sequence)
        if called.sequence >= self.completed:
            self._note(of, called)
            self._compare(of)
            self._asked = max(self._asked, called.sequence)
            if self.waiting.ranks:
                self._announce_if_asked()
        elif past is not None and past.digest != called.digest:
            self._note(of, called)
            self._differ(of, called.sequence)

    def _note(self, of: int, found: Piece | Called) -> None:
        if not self._ahead[of].note(found):
            raise RemoteProtocolError(f"{self.names[of]} sent two operations under one number")

    def announce(self) -> None:
        """Send this member's running call to all others, once. Members compare it with theirs."""
        if self._running is not None and self.broken is None and self._announced <= self.completed:
            self._announced = self.completed + 1
            self._notices.send_to_all(self._called(self._running))

    def _called(self, operation: Operation) -> bytes:
        return Called(self.completed, operation.digest, operation.text).to_wire()

    def _announce_if_asked(self) -> None:
        """Announce at once if another member has: all waiting members have to, to show who is late."""
        if self._asked == self.completed:
            self.announce()

    async def take(self, of: int, part: int) -> Message:
        """Wait for the next piece of that part of the running operation from that member."""
        if (message := self._ahead[of].take(self.completed, part)) is not None:
            return message
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._wanted[of, part] = future
        timer = asyncio.get_running_loop().call_later(WAIT_S, self.announce)
        self.waiting.begin(of)
        self._announce_if_asked()
        try:
            return await future
        finally:
            self.waiting.end(of)
            timer.cancel()

    def _compare(self, of: int) -> None:
        """Raise OperationMismatch if that member called another operation under the running one's number."""
        known = self._ahead[of].calls.get(self.completed)
        if known is not None and self._running is not None and known[0] != self._running.digest:
            self._differ(of, self.completed)

    def _differ(self, of: int, sequence: int) -> NoReturn:
        """Raise OperationMismatch for that member's operation of this number, and notify all."""
        mine = self._running if sequence == self.completed else self._past.get(sequence)
        self.differ(of, self._ahead[of].calls[sequence][1], mine)

    def differ(self, of: int, theirs: str, mine: Operation | None) -> NoReturn:
        """Raise OperationMismatch, as that member called `theirs` and this one `mine`; notify all."""
        ours = mine.text if mine is not None else "an operation that has ended"
        pair = sorted([(self.rank, ours), (of, theirs or "an operation of another form")])
        calls = "; ".join(f"{self.names[rank]}: {text}" for rank, text in pair)
        error = OperationMismatch(
            f"the members called different operations. {calls}. Call the same ones, in the same order"
        )
        self._send_abort(Abort(Cause.MISMATCH, str(error)))
        self._break(error)
        raise error

    # -- endings -------------------------------------------------------------------------------------------

    def _check(self) -> None:
        if self.broken is not None:
            raise reraise(self.broken)

    def abandon(self, call: str, error: BaseException | str) -> None:
        """End this epoch's operations at all members, because a call has failed with `error`."""
        if self.broken is not None:
            return
        text = f"{self.names[self.rank]} gave up {call}: {_why(error)}"
        if isinstance(error, OperationMismatch):
            self._send_abort(Abort(Cause.MISMATCH, str(error)))
        elif isinstance(error, PeerLost):
            self._send_loss(error)
        elif not isinstance(error, LinkClosed):
            self._send_abort(Abort(Cause.GIVEN_UP, text))
        self._break(error if isinstance(error, DuetError) else OperationAborted(text))

    def _on_abort(self, of: int, abort: Abort) -> None:
        if abort.cause is Cause.MISMATCH:
            self._break(OperationMismatch(abort.text))
        elif abort.cause is Cause.LOST and self._alone and abort.rank in self._ahead:
            text = f"{abort.text} (reported by {self.names[of]})"
            (name,) = self.names.alone([abort.rank])
            self._break(PeerLost(text, rank=abort.rank, name=name))
        else:
            self._break(OperationAborted(f"{abort.text} (reported by {self.names[of]})"))

    def _send_abort(self, abort: Abort) -> None:
        """Send an abort to all others. A broken engine sends none: the others have been notified already."""
        if self.broken is None:
            self._notices.send_to_all(abort.to_wire())

    def _send_loss(self, loss: PeerLost) -> None:
        if self._alone and loss.rank is not None:
            self._send_abort(Abort(Cause.LOST, str(loss), loss.rank))

    async def _send_loss_and_wait(self, loss: PeerLost) -> None:
        """Send a loss to all, and return when it has left or a second has passed.

        Otherwise this member could end first, and the others would take it for the lost one.
        """
        self._send_loss(loss)
        await self._notices.wait_sent(_NOTICE_S)

    def _break(self, error: DuetError) -> None:
        """End what runs, and refuse what follows, with this error. Only the first error counts."""
        if self.broken is not None:
            return
        self.broken = error
        self._has_arrived.set()
        for ahead in self._ahead.values():
            ahead.clear()
        if self._task is not None and self._task is not _current_task():
            self._woken = True
            self._task.cancel()
        self.messages.fail(error)


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # the loop has ended
        return None


def _why(error: BaseException | str) -> str:
    if isinstance(error, str):
        return error
    return f"{type(error).__name__}: {error}" if isinstance(error, DuetError) else type(error).__name__
