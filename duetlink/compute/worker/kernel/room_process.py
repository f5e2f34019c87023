"""A process that this kernel's zygote has forked, so that it is no child of ours."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable

_STATUS_BYTES = 100


class RoomProcess:
    """A process that the zygote has forked: we are not its parent."""

    def __init__(self, pid: int, pidfd: int, stderr: asyncio.StreamReader, status: int) -> None:
        self.pid = pid
        self.stderr: asyncio.StreamReader | None = stderr
        self._pidfd = pidfd
        self._status = status
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = self._loop.create_future()
        self._transport: asyncio.ReadTransport | None = None
        self._when_ended: Callable[[], None] = lambda: None
        self._loop.add_reader(status, self._told)

    @classmethod
    async def of(
        cls, pid: int, zygote: int, errors: int, status: int, when_ended: Callable[[], None]
    ) -> RoomProcess:
        """Takes over the descriptors of its standard error and of where the zygote tells its end, also where
        it raises.
        """
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
            if _parent(pid) != zygote:  # it has ended, and another has its number
                os.close(pidfd)
                pidfd = -1
        made = cls(pid, pidfd, stderr, status)
        made._transport = transport
        made._when_ended = when_ended
        return made

    @property
    def returncode(self) -> int | None:
        """None as long as it is not known to have ended."""
        return self._ended.result() if self._ended.done() else None

    def kill(self) -> None:
        """Raises ProcessLookupError."""
        if self._pidfd < 0:
            raise ProcessLookupError
        signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    async def wait(self) -> int:
        """Its exit status, or the number of the signal below 0; also where the zygote has ended with it."""
        return await asyncio.shield(self._ended)

    def _told(self) -> None:
        try:
            told = os.read(self._status, _STATUS_BYTES)
        except OSError:
            told = b""
        self._loop.remove_reader(self._status)
        os.close(self._status)
        with contextlib.suppress(ProcessLookupError):
            self.kill()  # where it is the zygote that has ended, which tells of nobody any more
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
        if self._transport is not None:
            self._loop.call_soon(self._transport.close)
        self._ended.set_result(int(told) if told else -signal.SIGKILL)
        self._when_ended()


def _parent(pid: int) -> int:
    """Raises ProcessLookupError."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        raise ProcessLookupError from None
