"""A process that the kernel's zygote forked, so that the kernel is not its parent and cannot wait for it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable

_STATUS_BYTES = 100


class RoomProcess:
    """A forked room, with the interface of `ready.Process`.

    It is signalled by its pidfd. Its zygote writes its exit status into a pipe; a pipe that closes empty
    means that the zygote has ended, and the room with it.
    """

    def __init__(self, pid: int, pidfd: int, stderr: asyncio.StreamReader, status: int) -> None:
        self.pid = pid
        self.stderr: asyncio.StreamReader | None = stderr
        self._pidfd = pidfd
        self._status = status
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = self._loop.create_future()
        self._transport: asyncio.ReadTransport | None = None
        self._when_ended: Callable[[], None] = lambda: None
        self._loop.add_reader(status, self._on_status)

    @classmethod
    async def attach(
        cls, pid: int, zygote: int, errors: int, status: int, when_ended: Callable[[], None]
    ) -> RoomProcess:
        """Wrap the process `pid`. Takes ownership of the pipes `errors` and `status`, even if it raises."""
        loop = asyncio.get_running_loop()
        stderr = asyncio.StreamReader()
        pipe = os.fdopen(errors, "rb", 0)
        try:
            transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stderr), pipe)
        except BaseException:
            pipe.close()
            os.close(status)
            raise
        pidfd = -1
        with contextlib.suppress(ProcessLookupError):
            pidfd = os.pidfd_open(pid)
            if _parent(pid) != zygote:  # it has ended, and another process has its number
                os.close(pidfd)
                pidfd = -1
        made = cls(pid, pidfd, stderr, status)
        made._transport = transport
        made._when_ended = when_ended
        return made

    @property
    def returncode(self) -> int | None:
        """The exit status, or the negative number of a signal; None until the end is known."""
        return self._ended.result() if self._ended.done() else None

    def kill(self) -> None:
        """Send SIGKILL. Raises ProcessLookupError if the process has ended."""
        if self._pidfd < 0:
            raise ProcessLookupError
        signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    async def wait(self) -> int:
        """Wait for the end. Returns the exit status, or the negative number of the signal.

        If the zygote has ended first, the result is that of SIGKILL.
        """
        return await asyncio.shield(self._ended)

    def _on_status(self) -> None:
        try:
            content = os.read(self._status, _STATUS_BYTES)
        except OSError:
            content = b""
        self._loop.remove_reader(self._status)
        os.close(self._status)
        with contextlib.suppress(ProcessLookupError):
            self.kill()  # the zygote may have ended: then no later status comes
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
        if self._transport is not None:
            self._loop.call_soon(self._transport.close)
        self._ended.set_result(int(content) if content else -signal.SIGKILL)
        self._when_ended()


def _parent(pid: int) -> int:
    """Return the parent's process number. Raises ProcessLookupError if the process has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        raise ProcessLookupError from None
