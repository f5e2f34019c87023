"""The SQLite file of a state. Each record has a digest, so that damage within a page is found as well.

A transaction that `write` has synced survives a power cut; one that it has not synced survives the end of the
process. SQLite recovers the WAL when the file is opened again; a transaction torn at its end was never
reported as written.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from duetlink.base.journal.files import sync_directory
from duetlink.duet.state.directory import unavailable
from duetlink.duet.state.records import Key
from duetlink.errors import StateBroken, StateUnavailable

FORMAT = 1  # incremented when an older version could not read the file
_APPLICATION = 0x64756574  # in SQLite's header: identifies the kind of file
_DIGEST_BYTES = 16
_BUSY_TIMEOUT_S = 5.0
_TABLE = (
    "CREATE TABLE records (kind TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, digest BLOB NOT NULL, "
    "PRIMARY KEY (kind, key)) WITHOUT ROWID"
)
_UPSERT = (
    "INSERT INTO records VALUES (?, ?, ?, ?) ON CONFLICT (kind, key) "
    "DO UPDATE SET value = excluded.value, digest = excluded.digest"
)
# SQLite's primary result codes that do not mean a damaged file
_ELSEWHERE = {
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_AUTH,
}


class StateFile:
    """An open state file. It may be handed to another thread, but not used by two threads at once."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection

    @classmethod
    def create(cls, path: Path) -> Self:
        """Create a file without records, atomically. Raises StateUnavailable."""
        new = path.with_name(path.name + ".new")
        try:
            for left in (new, new.with_name(new.name + "-journal")):  # left by a kernel that ended here
                left.unlink(missing_ok=True)
            # SQLite would create it readable for others
            os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            with contextlib.closing(_connect(new)) as connection:
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {FORMAT}")
                connection.execute(_TABLE)
            os.replace(new, path)
            sync_directory(path.parent)
        except (OSError, sqlite3.Error) as error:
            raise unavailable(path, error) from error
        return cls.open(path)

    @classmethod
    def open(cls, path: Path, *, read_only: bool = False) -> Self:
        """Open an existing file.

        Raises:
            StateBroken: it is damaged, is no state file, or a newer version wrote it.
            StateUnavailable: it cannot be read.
        """
        try:
            if path.stat().st_size == 0:  # SQLite takes an empty file for a new database
                raise broken(path, "it is empty")
            connection = _connect(path, "ro" if read_only else "rw")
        except OSError as error:
            raise unavailable(path, error) from error
        except sqlite3.Error as error:
            raise _failure(path, error) from error
        file = cls(path, connection)
        try:
            file._check()
            if not read_only:
                # on a file system without WAL, SQLite keeps a rollback journal, which is as safe
                connection.execute("PRAGMA journal_mode = WAL")
        except BaseException as error:
            connection.close()
            if isinstance(error, sqlite3.Error):
                raise _failure(path, error) from error
            raise
        return file

    def read(self) -> dict[Key, str]:
        """Return all records. Raises StateBroken, StateUnavailable."""
        try:
            rows = self._connection.execute("SELECT kind, key, value, digest FROM records").fetchall()
        except sqlite3.Error as error:
            raise _failure(self.path, error) from error
        found = {}
        for kind, key, value, digest in rows:
            if any(type(text) is not str for text in (kind, key, value)) or digest != _digest(
                kind, key, value
            ):
                raise broken(
                    self.path, f"its record {str(kind)[:40]} {str(key)[:100]} does not match its digest"
                )
            found[kind, key] = value
        return found

    def write(self, changes: Mapping[Key, str | None], *, sync: bool) -> None:
        """Put records, or remove those whose value is None, in one transaction. With `sync`, these and all
        earlier ones are on the disk when this returns.

        Raises:
            StateUnavailable: they are not written, or not certainly.
        """
        connection = self._connection
        try:
            connection.execute(f"PRAGMA synchronous = {'FULL' if sync else 'NORMAL'}")
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.executemany(
                    _UPSERT,
                    [
                        (*key, value, _digest(*key, value))
                        for key, value in changes.items()
                        if value is not None
                    ],
                )
                connection.executemany(
                    "DELETE FROM records WHERE kind = ? AND key = ?",
                    [key for key, value in changes.items() if value is None],
                )
                if sync and not changes:
                    # an empty transaction would not sync the earlier ones
                    connection.execute(f"PRAGMA user_version = {FORMAT}")
                connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):  # some failures have rolled back already
                    connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise unavailable(self.path, error) from error

    def close(self) -> None:
        self._connection.close()

    def _check(self) -> None:
        (application,) = self._connection.execute("PRAGMA application_id").fetchone()
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if application != _APPLICATION:
            raise broken(self.path, "it is the file of another program")
        if version > FORMAT:
            raise StateBroken(
                f"{self.path} was written by a newer version of duetlink (format {version}; this one knows "
                f"{FORMAT}): install that version, or launch with another name"
            )
        ((found, *_), *_) = self._connection.execute("PRAGMA integrity_check(1)").fetchall()
        if version != FORMAT or found != "ok":
            raise broken(
                self.path, f"SQLite finds: {str(found)[:200]}" if found != "ok" else "it has no format"
            )


def broken(path: Path, what: str) -> StateBroken:
    """Return the error for a damaged state; its text says what to do."""
    return StateBroken(
        f"the kept state {path} is damaged: {what}. Nothing was changed. Restore a copy of its directory, "
        f"or start again with: duetlink state forget {path.parent.name}"
    )


def _connect(path: Path, mode: str = "rw") -> sqlite3.Connection:
    # autocommit mode: `write` begins its transactions explicitly
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=_BUSY_TIMEOUT_S,
    )
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _failure(path: Path, error: sqlite3.Error) -> StateBroken | StateUnavailable:
    """Return the error for an SQLite failure. A file that cannot be accessed is not a damaged one."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    if code & 0xFF in _ELSEWHERE and code != sqlite3.SQLITE_IOERR_SHORT_READ:
        return unavailable(path, error)
    return broken(path, str(error))


def _digest(kind: str, key: str, value: str) -> bytes:
    content = "\0".join((kind, key, value))  # all three are ASCII without NUL
    return hashlib.blake2b(content.encode(), digest_size=_DIGEST_BYTES).digest()
