"""The file of the audit log: entries are appended, chained, and on the disk before what they tell happens."""

from __future__ import annotations

import base64
import contextlib
import datetime
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import filelock

from duetlink.audit.entry import MAX_LINE_BYTES, RECOVERED, Entry, canonical, parse
from duetlink.audit.files import lock_beside, sync_directory
from duetlink.audit.head import OPEN_FLAGS, Head, read_head, write_head
from duetlink.errors import AuditUnavailable

_LOCK_TIMEOUT_S = 5.0
_POLL_INTERVAL_S = 0.002


def utc_now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


class AuditLog:
    """One log of one user. Several threads and processes may append at once; nothing is kept between calls.

    The directory holds, beside the log: its head, a lock file, and what was found torn (`.torn`). Only their
    owner may read them.
    """

    def __init__(
        self,
        path: Path,
        *,
        now: Callable[[], datetime.datetime] = utc_now,
        lock_timeout_s: float = _LOCK_TIMEOUT_S,
    ) -> None:
        self.path = path
        self._now = now
        self._lock = lock_beside(path, lock_timeout_s)

    def append(self, entries: Sequence[Entry], *, sync: bool = True) -> int:
        """Write `entries` in this order, all or none; returns the position in the file where they begin.

        With `sync` they are on the disk when this returns, and so is everything before them; without, they
        are with the operating system: a process that dies loses none, a power cut may. Blocks.

        Raises:
            AuditUnavailable: they are not written, or not surely.
        """
        try:
            self._make_directory()
            with self._lock.acquire(poll_interval=_POLL_INTERVAL_S):
                return self._append(entries, sync)
        except filelock.Timeout:
            raise AuditUnavailable(
                f"the audit log {self.path} is held by another process that does not let go of it; nothing "
                "leaves until it does"
            ) from None
        except OSError as error:
            raise unavailable(self.path, error) from error

    def snapshot(self) -> tuple[Head | None, int]:
        """The head, and the size of the log at the same moment; where the lock cannot be had, just after it.

        Raises:
            AuditUnavailable: they cannot be read.
        """
        with contextlib.ExitStack() as stack:
            # without a lock file nobody writes, and none is made: a copy may lie anywhere
            if os.path.exists(self._lock.lock_file):
                with contextlib.suppress(OSError):  # also filelock.Timeout
                    stack.enter_context(self._lock.acquire(poll_interval=_POLL_INTERVAL_S))
            try:
                return read_head(self.path), self.path.stat().st_size
            except FileNotFoundError:
                return read_head(self.path), 0
            except OSError as error:
                raise AuditUnavailable(f"the audit log {self.path} cannot be read: {error}") from error

    def _make_directory(self) -> None:
        if not self.path.parent.is_dir():
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _append(self, entries: Sequence[Entry], sync: bool) -> int:
        fd, is_new = self._open()
        try:
            end, found = self._end(fd)
            if found:
                entries = [Entry(kind=RECOVERED, session=entries[0].session, reason=found), *entries]
            begin_bytes = os.lseek(fd, 0, os.SEEK_END)
            content = bytearray()
            for entry in entries:
                sealed = entry.sealed(end.number + 1, self._when(), end.hash)
                content += sealed.line()
                end = Head(sealed.number, sealed.hash, begin_bytes + len(content))
            self._write(fd, content, begin_bytes)
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
        write_head(self.path, end)
        if is_new:
            sync_directory(self.path.parent)
        return begin_bytes

    def _open(self) -> tuple[int, bool]:
        """The log, open to be read and appended to, and whether it is a new one."""
        flags = os.O_RDWR | os.O_APPEND | OPEN_FLAGS
        try:
            fd, is_new = os.open(self.path, flags), False
        except FileNotFoundError:
            fd, is_new = os.open(self.path, flags | os.O_CREAT, 0o600), True
        if os.name == "posix" and os.fstat(fd).st_mode & 0o077:
            os.chmod(self.path, 0o600)
        return fd, is_new

    def _when(self) -> str:
        return self._now().astimezone(datetime.UTC).isoformat(timespec="microseconds")

    def _write(self, fd: int, content: bytearray, begin_bytes: int) -> None:
        left = memoryview(content)
        try:
            while left:
                left = left[os.write(fd, left) :]
        except OSError:  # a full disk takes the beginning: nobody was told of it
            with contextlib.suppress(OSError):
                os.ftruncate(fd, begin_bytes)
            raise

    def _end(self, fd: int) -> tuple[Head, str]:
        """Where the chain goes on, and what was found wrong with the end of the log, in words."""
        head, size_bytes = read_head(self.path), os.fstat(fd).st_size
        if head is not None and head.size_bytes == size_bytes:
            return head, ""
        if head is None and size_bytes == 0:
            return Head(), ""
        found = []
        if torn_bytes := self._put_torn_aside(fd, size_bytes):
            found.append(f"its last line was torn, {torn_bytes} bytes, which are in {self.path.name}.torn")
        size_bytes = os.fstat(fd).st_size
        if head is None:
            head = self._last(fd, size_bytes)
            found.append("its head file was missing or damaged")
        elif head.size_bytes > size_bytes:
            missing_bytes = head.size_bytes - size_bytes
            found.append(f"its end was missing, {missing_bytes} bytes up to entry {head.number}")
        else:
            head = self._adopt(fd, head, size_bytes)
            if head.size_bytes < size_bytes:
                found.append(f"what followed entry {head.number} was no entry of this log")
        return head, "; ".join(found)

    def _put_torn_aside(self, fd: int, size_bytes: int) -> int:
        """Move what follows the last newline out of the log; returns how much that was."""
        torn_bytes = 0
        tail = b""
        while torn_bytes < size_bytes:
            begin = max(0, size_bytes - torn_bytes - 4096)
            chunk = _read(fd, begin, size_bytes - torn_bytes)
            line_end = chunk.rfind(b"\n") + 1
            tail = chunk[line_end:] + tail
            torn_bytes += len(chunk) - line_end
            if line_end:
                break
            if len(tail) > MAX_LINE_BYTES:  # no crash of ours: it stays where it is, for `verify` to find
                os.write(fd, b"\n")
                return 0
        if not torn_bytes:
            return 0
        record = {"when": self._when(), "begin_bytes": size_bytes - torn_bytes}
        record["torn_base64"] = base64.b64encode(tail).decode("ascii")
        aside = os.open(
            self.path.with_name(self.path.name + ".torn"),
            os.O_WRONLY | os.O_APPEND | os.O_CREAT | OPEN_FLAGS,
            0o600,
        )
        try:
            os.write(aside, canonical(record) + b"\n")
            os.fsync(aside)
        finally:
            os.close(aside)
        os.ftruncate(fd, size_bytes - torn_bytes)
        return torn_bytes

    def _last(self, fd: int, size_bytes: int) -> Head:
        """The last entry of a log without a head. What follows it stays in the log, for `verify` to find."""
        tail = _read(fd, max(0, size_bytes - 2 * MAX_LINE_BYTES), size_bytes)
        for line in reversed(tail.split(b"\n")):
            with contextlib.suppress(ValueError):
                fields = parse(line)
                return Head(fields["number"], fields["hash"], size_bytes)
        return Head(size_bytes=size_bytes)

    def _adopt(self, fd: int, head: Head, size_bytes: int) -> Head:
        """Take in the entries that were written when their writer ended before it wrote the head."""
        os.lseek(fd, head.size_bytes, os.SEEK_SET)
        with os.fdopen(os.dup(fd), "rb") as file:
            while (line := file.readline(MAX_LINE_BYTES)) and head.size_bytes < size_bytes:
                try:
                    fields = parse(line.removesuffix(b"\n"))
                except ValueError:
                    break
                if (fields["number"], fields["previous"]) != (head.number + 1, head.hash):
                    break
                head = Head(fields["number"], fields["hash"], head.size_bytes + len(line))
        return head


def unavailable(path: Path, error: Exception) -> AuditUnavailable:
    """The error that says what to do."""
    words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return AuditUnavailable(
        f"the audit log {path} cannot be written ({words}); nothing leaves until it can. Make room or give "
        "access, or choose another file with audit_path in the settings (DUETLINK_AUDIT_PATH; empty: no log)"
    )


def _read(fd: int, begin_bytes: int, end_bytes: int) -> bytes:
    os.lseek(fd, begin_bytes, os.SEEK_SET)
    found = bytearray()
    while len(found) < end_bytes - begin_bytes:
        chunk = os.read(fd, end_bytes - begin_bytes - len(found))
        if not chunk:
            break
        found += chunk
    return bytes(found)
