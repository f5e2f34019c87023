"""The file of the audit log: entries are appended, chained, and on the disk before their event takes
place."""

from __future__ import annotations

import contextlib
import datetime
import errno
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from duetlink.base.audit.entry import MAX_LINE_BYTES, RECOVERED, Entry
from duetlink.base.journal.head import Head
from duetlink.base.journal.journal import Journal
from duetlink.base.journal.lock import JournalHeld
from duetlink.errors import AuditUnavailable

_LOCK_TIMEOUT_S = 5.0
_AT_ONCE_S = 0.001  # some writers that do not synchronise are done by then, and a loop may wait so long


def utc_now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


class AuditLog:
    """One log of one user. Several threads and processes may append at once."""

    def __init__(
        self,
        path: Path,
        *,
        now: Callable[[], datetime.datetime] = utc_now,
        lock_timeout_s: float = _LOCK_TIMEOUT_S,
    ) -> None:
        self.path = path
        self._now = now
        self._journal = Journal(path, max_line_bytes=MAX_LINE_BYTES, lock_timeout_s=lock_timeout_s)

    def append_at_once(self, entries: Sequence[Entry]) -> bool:
        """Write `entries` as `append` does without `sync`, unless others hold the lock for a millisecond.

        Returns False if they are not written for that reason. Raises as `append`.
        """
        try:
            self._append(entries, sync=False, timeout_s=_AT_ONCE_S)
        except JournalHeld:
            return False
        return True

    def append(self, entries: Sequence[Entry], *, sync: bool = True) -> int:
        """Write `entries` in this order, all or none; return the offset in the file at which they begin.

        With `sync`, they and everything before them are on the disk when this returns. Without, the operating
        system has them: a process that dies loses none, a power cut may. Blocks.

        Raises:
            AuditUnavailable: they are not written, or it is not certain that they are.
        """
        try:
            return self._append(entries, sync=sync)
        except JournalHeld:
            raise AuditUnavailable(
                f"the audit log {self.path} is held by another process; nothing leaves until it is released"
            ) from None

    def _append(self, entries: Sequence[Entry], *, sync: bool, timeout_s: float | None = None) -> int:
        def fields(found: str) -> Iterator[dict[str, Any]]:
            if found:
                recovered = Entry(kind=RECOVERED, session=entries[0].session, reason=found)
                yield recovered.to_fields(self._when())
            for entry in entries:
                yield entry.to_fields(self._when())

        try:
            with self._journal.held(timeout_s):
                return self._journal.append_mending(fields, self._when, synced=sync)
        except JournalHeld:  # is an OSError
            raise
        except OSError as error:
            raise unavailable(self.path, error) from error

    def sync(self) -> None:
        """Return when all entries so far are on the disk, except those in a file that was moved away. Blocks.

        An error is left to the next `append`, which reports it.
        """
        with contextlib.suppress(OSError):
            self._journal.sync()

    def snapshot(self) -> tuple[Head | None, int]:
        """Return the head, and the size of the log at the same moment.

        If the lock is not available, the size may be slightly newer.

        Raises:
            AuditUnavailable: they cannot be read.
        """
        try:
            return self._journal.snapshot()
        except OSError as error:
            raise AuditUnavailable(f"the audit log {self.path} cannot be read: {error}") from error

    def _when(self) -> str:
        return self._now().astimezone(datetime.UTC).isoformat(timespec="microseconds")


def unavailable(path: Path, error: Exception) -> AuditUnavailable:
    """Return the error that tells the user what to do."""
    words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        words = "it, or its head, is a symbolic link, which is not followed; name the file itself"
    return AuditUnavailable(
        f"the audit log {path} cannot be written ({words}); nothing leaves until it can. Make room or give "
        "access, or choose another file with audit_path in the settings (DUETLINK_AUDIT_PATH; empty: no log)"
    )
