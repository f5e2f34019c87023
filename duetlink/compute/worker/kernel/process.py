"""A room as its kernel sees it: a process to start, send commands to, and end in bounded time.

Nothing that it sends is trusted.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Self

from duetlink.base.events import RoomEnded, RoomRefused, RoomStarted, Word, emit
from duetlink.compute.worker.kernel import endings, usage
from duetlink.compute.worker.kernel.calls import Calls, PendingCommand, Reply
from duetlink.compute.worker.kernel.channel import Channel
from duetlink.compute.worker.kernel.endings import Ending
from duetlink.compute.worker.kernel.ready import Process, take_spare
from duetlink.compute.worker.kernel.result_memory import ResultMemory
from duetlink.compute.worker.kernel.spawn import BOOTSTRAP, spawn
from duetlink.compute.worker.protocol import failures
from duetlink.compute.worker.protocol.events import EventGate
from duetlink.compute.worker.protocol.frames import Frame
from duetlink.compute.worker.protocol.handlers import HANDLERS
from duetlink.compute.worker.protocol.isolation import Isolation
from duetlink.compute.worker.protocol.libraries import LIBRARIES
from duetlink.compute.worker.protocol.limits import Limits
from duetlink.compute.worker.protocol.memory import close_all
from duetlink.errors import RemoteProtocolError, SettingError, WorkerUnavailable, WorkLimit
from duetlink.extensions import shared_extensions

__all__ = ["Reply", "Room"]

START_TIMEOUT_S = 60.0  # the libraries may have to be read from a slow disk

_REAP_TIMEOUT_S = 2.0
_KEPT_BYTES = 8 * 1024  # the end of standard error that is kept
_ERRORS_PAUSE_S = 0.001

OnEvent = Callable[[str, bytes], None]


class Room:
    """One room process. Its methods must be called on the loop that started it.

    The future `ended` gets the reason, in words for the owner, when the process is gone.
    """

    def __init__(self, handler: str, limits: Limits, on_event: OnEvent) -> None:
        loop = asyncio.get_running_loop()
        self.limits = limits
        self.isolation = Isolation("none", "none", "none", "none", False)
        self.libraries: tuple[str, ...] = ()
        self.ended: asyncio.Future[str] = loop.create_future()
        self._ready: asyncio.Future[dict[str, Any]] = loop.create_future()
        self._on_event = on_event
        self._events = EventGate(loop.time())
        self._handler, self._began_s = Word(handler), loop.time()
        self._process: Process | None = None
        self._was_spare = False  # the process was a spare one, which existed before this room was requested
        self._channel: Channel | None = None
        self._watching: asyncio.Task[None] | None = None
        self._ending: Ending | None = None
        self._calls = Calls(self._on_timeout)
        self._memory = ResultMemory(limits.result_bytes)
        self._errors = bytearray()

    @classmethod
    async def start(
        cls,
        limits: Limits | None = None,
        *,
        handler: str = "program",
        libraries: Sequence[str] = ("numpy",),
        on_event: OnEvent = lambda name, content: None,
        timeout_s: float = START_TIMEOUT_S,
        bootstrap: str = BOOTSTRAP,
    ) -> Self:
        """Start a room and wait until it is locked down and ready for commands.

        Args:
            handler: the kind of room, a key of `HANDLERS`.
            libraries: the keys of `LIBRARIES` that it should import, without those that are not installed.
            on_event: called with name and content of each progress event. Both may be anything.
            bootstrap: the program that starts the process; tests use their own.

        Raises:
            SettingError: the handler or a library is unknown.
            WorkerUnavailable: the room cannot be started here, or not within `timeout_s`. The exception has a
                note, for the owner only, with the end of the room's standard error.
        """
        unknown = [library for library in libraries if library not in LIBRARIES]
        if unknown:
            raise SettingError(f"a room has no {', '.join(unknown)}; there are {', '.join(LIBRARIES)}")
        if handler not in HANDLERS and bootstrap == BOOTSTRAP:
            raise SettingError(f"a room has no command handler {handler!r}; there are {', '.join(HANDLERS)}")
        for _ in range(2):
            room = cls(handler, limits if limits is not None else Limits(), on_event)
            try:
                async with asyncio.timeout(timeout_s):
                    await room._open(handler, libraries, bootstrap)
            except TimeoutError:
                why = f"the room was not ready after {timeout_s:g} s"
            except (WorkerUnavailable, RemoteProtocolError) as error:
                why = str(error)
            except BaseException:
                await room._end_and_wait("its start was cancelled")
                raise
            else:
                emit(RoomStarted(room._handler, room._age_s))
                return room
            await room._end_and_wait(why)
            if not room._was_killed_as_spare():
                break
        emit(RoomRefused(room._handler, room._age_s))
        refusal = WorkerUnavailable(why)
        refusal.add_note(room.last_words)
        raise refusal

    @property
    def _age_s(self) -> float:
        return asyncio.get_running_loop().time() - self._began_s

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """True once the room accepts no more commands; its process may still exist for a moment."""
        return self._ending is not None

    @property
    def last_words(self) -> str:
        """The end of its standard error, for the owner only: it may quote the data."""
        return self._errors.decode(errors="replace")

    def memory_bytes(self) -> int | None:
        """Return its resident private memory; None after its end, or if it is unknown."""
        return None if self.ended.done() else usage.memory_bytes(self.pid)

    def cpu_s(self) -> float | None:
        """Return the processor time of all its threads; None after its end, or if it is unknown."""
        return None if self.ended.done() else usage.cpu_s(self.pid)

    async def call(
        self,
        command: str,
        content: bytes = b"",
        fds: Sequence[int] = (),
        timeout_s: float | None = None,
        *,
        lasting: bool = False,
        memory: bool = False,
    ) -> Reply:
        """Send a command and wait for its reply. The room runs commands in the order of the calls.

        The time limit starts when the previous command is done. Cancelling the call does not stop the
        command; its reply is discarded. The caller may close the descriptors when this has returned or
        raised.

        Args:
            timeout_s: replaces the limits' `wall_s`.
            lasting: the room maps the memory of `fds` for the rest of its life, so this memory does not count
                against its limit, even if it is mapped writable. For assets, each once.
            memory: the reply may come with memory, up to the limits' `result_bytes`. A room that asks for
                memory during any other call is ended.

        Raises:
            WorkLimit: this call, or one before it, exceeded a limit of time, memory or processor. The room
                has ended.
            WorkerUnavailable: the room has ended, or broke its protocol and was ended.
            LimitExceeded: the command is too large.
            OperationFailed: the command needs more memory than the limit, or its handler raised this.
            DuetError: another error that the handler raised; RemoteFailure for one that is no DuetError. The
                room continues after this and after OperationFailed.
        """
        if self._ending is not None:
            raise self._error()
        number = self._calls.next_number()
        if lasting:
            usage.allow_mapped(self.pid, fds)
        self._send({"call": number, "command": command}, content, fds)
        wall_s = self.limits.wall_s if timeout_s is None else timeout_s
        call = self._calls.add(number, wall_s, memory=memory)
        try:
            return await call.reply
        except asyncio.CancelledError:
            if call.reply.done() and not call.reply.cancelled() and call.reply.exception() is None:
                close_all(call.reply.result().fds)  # the reply arrived at the same moment
            raise

    def listen(self, on_event: OnEvent) -> None:
        """Replace the callback for progress events."""
        self._on_event = on_event

    def kill(self, why: str) -> None:
        """End the room at once. Waiting calls raise WorkerUnavailable with this reason."""
        self._end(Ending(why))

    async def close(self) -> None:
        """End the room; its process is gone when this returns. Safe to call twice."""
        await self._end_and_wait("this side has closed the room")

    # -- the process -----------------------------------------------------------------------------------------

    async def _open(self, handler: str, libraries: Sequence[str], bootstrap: str) -> None:
        found = await take_spare(bootstrap)
        self._was_spare = found is not None
        self._process, sock = found or await spawn(bootstrap, self.limits.threads)
        self._channel = Channel(sock, self._on_frame, self._on_channel_end)
        self._watching = asyncio.ensure_future(self._watch(self._process, self._channel))
        start = {"handler": handler, "libraries": list(libraries), "limits": asdict(self.limits)}
        self._send({"start": start})
        ready = await self._ready
        self.isolation = Isolation.from_wire(ready)
        self.libraries = tuple(library for library in libraries if library in ready["libraries"])

    def _was_killed_as_spare(self) -> bool:
        """True if a spare process, or its zygote, was killed from outside before the room was ready."""
        assert self._ending is not None
        return self._was_spare and self._ending.is_killed

    async def _watch(self, process: Process, channel: Channel) -> None:
        assert process.stderr is not None
        collecting = asyncio.ensure_future(self._collect_errors(process.stderr))
        status = await process.wait()
        await asyncio.wait((collecting,), timeout=_REAP_TIMEOUT_S)
        collecting.cancel()
        channel.drain()
        self._end(endings.from_status(status, bytes(self._errors), self.limits))
        assert self._ending is not None
        emit(
            RoomEnded(self._handler, self._age_s, limit=self._ending.is_limit, killed=self._ending.is_killed)
        )
        self.ended.set_result(self._ending.why)

    async def _collect_errors(self, stderr: asyncio.StreamReader) -> None:
        while data := await stderr.read(_KEPT_BYTES):
            self._errors += data
            del self._errors[:-_KEPT_BYTES]
            # a room that writes without end must not occupy this loop
            await asyncio.sleep(_ERRORS_PAUSE_S)

    async def _end_and_wait(self, why: str) -> None:
        self.kill(why)
        if self._watching is not None:
            await asyncio.wait((self._watching,))

    def _end(self, ending: Ending) -> None:
        """Kill the process, and fail all waiting calls. Only the first reason counts."""
        if self._ending is not None:
            return
        self._ending = ending
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        if self._channel is not None:
            self._channel.close()
        self._memory.clear()
        if not self._ready.done():
            self._ready.set_exception(self._error())
            self._ready.exception()  # marks it as retrieved: `start` may not be waiting for it
        self._calls.fail(self._error)

    def _on_channel_end(self, why: str, broken: bool) -> None:
        """Handle the end of the channel. If the process ends as well, its exit status says more."""
        crashed = Ending(why)
        if broken:
            self._end(crashed)
        elif self._ending is None:
            asyncio.get_running_loop().call_later(_REAP_TIMEOUT_S, self._end, crashed)

    def _error(self) -> WorkerUnavailable:
        assert self._ending is not None
        return (WorkLimit if self._ending.is_limit else WorkerUnavailable)(self._ending.why)

    def _on_timeout(self, call: PendingCommand) -> None:
        # this loop may have been blocked while the room answered in time
        if self._channel is not None:
            self._channel.drain()
        if self._calls.is_first(call):
            self._end(endings.timed_out(call.timeout_s))

    # -- frames ----------------------------------------------------------------------------------------------

    def _send(
        self, header: dict[str, Any], content: bytes = b"", fds: Sequence[int] = (), urgent: bool = False
    ) -> None:
        assert self._channel is not None
        self._channel.send(header, content, fds, urgent)

    def _on_frame(self, frame: Frame) -> None:
        header = frame.header
        if "event" in header:
            if self._events.admits(header["event"], frame.content, asyncio.get_running_loop().time()):
                asyncio.get_running_loop().call_soon(self._on_event, header["event"], frame.content)
        elif not self._ready.done():
            self._started(header)
        elif "want" in header:
            self._grant_memory(header["want"], header.get("size_bytes"))
        elif "failure" in header:
            call, error = self._calls.first(header["failure"]), failures.from_wire(header)
            self._memory.clear()
            self._calls.answer(call, error)
        else:
            call = self._calls.first(header.get("reply"))
            self._calls.answer(call, Reply(frame.content, self._memory.take(header.get("rooms"))))

    def _started(self, header: dict[str, Any]) -> None:
        if type(header.get("unready")) is str:
            why = f"the room could not start ({header['unready'][:400]})"
            self._end(Ending(why))
            return
        ready = header.get("ready")
        if type(ready) is not dict or type(ready.get("libraries")) is not list:
            raise RemoteProtocolError("its first frame does not say that it is ready")
        if (here := [*shared_extensions()]) != (there := ready.get("extensions")):
            why = f"the room has other extensions than its kernel: {str(there)[:200]}, not {here}"
            self._end(Ending(f"{why}; restart the kernel, or install them in its site-packages"))
            return
        self._ready.set_result(ready)

    def _grant_memory(self, number: Any, size_bytes: Any) -> None:
        if not self._calls.memory:
            raise RemoteProtocolError("it wants memory for nothing")
        try:
            fds = [self._memory.make(number, size_bytes)]
            refused = ""
        except WorkLimit as error:
            fds, refused = [], str(error)
        self._send({"room": number, "refused": refused}, fds=fds, urgent=True)
