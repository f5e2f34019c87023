"""The file of a journal: locked, read from its beginning, appended to.

A line is on the disk before its head is, and the head before the append returns. So there may be

    a line, and the head before it      its writer died before it was done: the line counts
    part of a line, and such a head     the same, but its content is lost
    a head without its line             the file was cut off, or restored from an old copy

The last two are damage, as is anything that does not follow in the chain. An old file that was restored
together with its old head is not detected.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from duetlink.base.journal import files
from duetlink.base.journal.head import Head, follow, head_path, seal
from duetlink.base.journal.lock import JournalLock
from duetlink.base.journal.mending import mended_end
from duetlink.errors import AuditBroken

Fields = Mapping[str, Any]


class Journal:
    """One journal of one user. Several threads and processes may use it, one at a time under the lock.

    The directory contains, beside the file: its head, a lock file, and torn lines (`.torn`). Only their owner
    may read them. Between calls this object remembers the last line that it wrote, so that the loss of the
    file together with its head is detected.
    """

    def __init__(self, path: Path, *, max_line_bytes: int, lock_timeout_s: float) -> None:
        self.path = path
        self.max_line_bytes = max_line_bytes
        self._lock = JournalLock(path, lock_timeout_s)
        self._known = Head()

    @contextlib.contextmanager
    def held(self, timeout_s: float | None = None) -> Iterator[None]:
        """Hold the lock, which the writing methods need; create the directory if it is missing.

        `timeout_s` replaces the journal's own limit for this call. Raises JournalHeld, OSError.
        """
        if not self.path.parent.is_dir():
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._lock.held(timeout_s):
            yield

    def snapshot(self) -> tuple[Head | None, int]:
        """Return the head, and the size of the file at the same moment. Takes the lock itself.

        If the lock is not available, the size may be slightly newer. Raises OSError.
        """
        with contextlib.ExitStack() as stack:
            # without a lock file there is no writer, and none is made: this may be a copy in any directory
            if self._lock.path.exists():
                with contextlib.suppress(OSError):  # also JournalHeld
                    stack.enter_context(self._lock.held())
            head = files.read_head(self.path)
            try:
                return head, self.path.stat().st_size
            except FileNotFoundError:
                return head, 0

    def sync(self) -> None:
        """Return when everything in the file is on the disk. Needs no lock. Raises OSError."""
        with files.opened(self.path, files.READ_AND_WRITE) as fd:
            files.sync(fd)

    def identity(self) -> tuple[int, ...]:
        """Return a key that changes with the file or its head; empty if one is missing. Raises OSError."""
        return files.identity(self.path)

    # -- append despite damage -------------------------------------------------------------------------------

    def append_mending(
        self, entries: Callable[[str], Iterable[Fields]], when: Callable[[], str], *, synced: bool
    ) -> int:
        """Mend a damaged end of the file, then append; return the offset of the new lines in bytes.

        `entries` is called with a description of the damage (empty if there is none), and returns the fields
        of the lines in their order. All are written, or none. With `synced`, they and everything before them
        are on the disk when this returns; without, the operating system has them: a process that dies loses
        none, a power cut may. Raises OSError.
        """
        is_new = not self.path.exists()
        with files.opened(self.path, files.READ_AND_APPEND) as fd:
            files.close_to_others(fd)
            end, found = mended_end(fd, self.path, self.max_line_bytes, when, self._known)
            begin_bytes = files.size_bytes(fd)
            end = self._add(fd, dataclasses.replace(end, size_bytes=begin_bytes), entries(found))
            if synced:
                files.sync(fd)
        files.write_head(self.path, end)
        self._known = end
        if is_new:
            files.sync_directory(self.path.parent)
        return begin_bytes

    # -- append only to an undamaged file --------------------------------------------------------------------

    def walk(self, take: Callable[[dict[str, Any]], object]) -> Head:
        """Call `take` with the fields of every line in order; return the head of the last line.

        Lines behind the head file's are accepted, and the head file is updated.

        Raises:
            AuditBroken: the file is damaged, or `take` raised ValueError; the message says where. `take` was
                called for the lines before the damage.
            OSError: the file cannot be read, or a line behind the head cannot be synchronised.
        """
        stated = files.read_head(self.path)
        has_head_file = stated is not None or head_path(self.path).exists()
        found = Head()
        met = stated is not None and stated.number < 0
        with contextlib.ExitStack() as stack:
            try:
                file = stack.enter_context(open(self.path, "r+b"))
            except FileNotFoundError:
                if met or not has_head_file:
                    return found
                raise AuditBroken("it is missing, but its head file exists") from None
            while line := file.readline(self.max_line_bytes):
                found = self._step(line, found, take)
                met = met or found == stated
            if not found.size_bytes and not has_head_file:
                return found
            if stated is None:
                raise AuditBroken(f"its head {head_path(self.path).name} is missing or damaged")
            if not met:
                missing = f"it ends with line {found.number}, and its head names line {stated.number}"
                raise AuditBroken(missing if found.number < stated.number else "its head names another line")
            if found != stated:
                files.sync(file.fileno())
                files.write_head(self.path, found, synced=True)
        return found

    def append(self, end: Head, fields: Fields) -> Head:
        """Add a line behind `end`, the head that `walk` returned.

        The line and the head are on the disk when this returns.

        Raises:
            OSError: the line is not written, or it is not certain that it is.
        """
        if not end.size_bytes:  # the head first: from here on a file without one is damaged
            files.write_head(self.path, end, synced=True)
            files.sync_directory(self.path.parent)
        with files.opened(self.path, files.APPEND) as fd:
            head = self._add(fd, end, [fields])
            files.sync(fd)
        if not end.size_bytes:
            files.sync_directory(self.path.parent)
        files.write_head(self.path, head, synced=True)
        return head

    def start_over(self, fields: Fields, aside: Path, take: Callable[[dict[str, Any]], object]) -> None:
        """Keep the lines before the damage, add one, and copy the damaged file to `aside`.

        `take` is as for `walk`. A crash meanwhile leaves either the damaged file or the new one. Raises
        OSError.
        """
        kept = bytearray()
        end = Head()
        with contextlib.suppress(FileNotFoundError, AuditBroken), open(self.path, "rb") as file:
            while line := file.readline(self.max_line_bytes):
                end = self._step(line, end, take)
                kept += line
        line, head = seal(end, fields)
        new = self.path.with_name(self.path.name + ".new")
        with files.opened(new, files.REPLACE) as fd:
            files.write_all(fd, kept + line, 0)
            files.sync(fd)
        with contextlib.suppress(FileNotFoundError):
            shutil.copy(self.path, aside)
        files.replace(new, self.path)
        files.sync_directory(self.path.parent)
        files.write_head(self.path, head, synced=True)
        files.sync_directory(self.path.parent)

    def _add(self, fd: int, end: Head, entries: Iterable[Fields]) -> Head:
        content, begin_bytes = bytearray(), end.size_bytes
        for fields in entries:
            line, end = seal(end, fields)
            content += line
        files.write_all(fd, content, begin_bytes)
        return end

    def _step(self, line: bytes, end: Head, take: Callable[[dict[str, Any]], object]) -> Head:
        number = end.number + 1
        if not line.endswith(b"\n"):
            raise AuditBroken(f"line {number} is torn or too long")
        try:
            fields, end = follow(end, line)
        except ValueError as error:
            raise AuditBroken(f"line {number} {error}") from None
        try:
            take(fields)
        except ValueError as error:
            raise AuditBroken(f"line {number} is not as it was written: {error}") from None
        return end
