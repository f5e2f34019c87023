"""`duet.audit`: reads, filters, verifies and exports the audit log on this side's disk."""

from __future__ import annotations

import collections
import csv
import dataclasses
import datetime
import fnmatch
import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duetlink.base.audit import read
from duetlink.base.audit.entry import OPENED, POLICY, SHARE, UNREADABLE, UNSHARE, Entry
from duetlink.base.audit.verify import Report, verify
from duetlink.base.quantities import count_text, size_text
from duetlink.base.wire.text import harmless_lines
from duetlink.duet.display import Displayed, Table, by_words
from duetlink.errors import AuditBroken, AuditUnavailable, SettingError

ALL = "all"
_SHOWN = 50  # entries, the latest ones
_CSV_FIELDS = tuple(field.name for field in dataclasses.fields(Entry))
_OWN = frozenset({OPENED, POLICY, SHARE, UNSHARE})  # kinds that only this side can cause
_HEADERS = ("#", "when", "what", "who", "object", "bytes", "by", "words", "path")


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFilter:
    """A filter of entries; an empty field matches all. `name` and `peer` may be patterns: `loss*`."""

    kind: tuple[str, ...] = ()
    name: str = ""
    peer: str = ""
    since: datetime.datetime | None = None
    until: datetime.datetime | None = None
    session: str = ""

    def __post_init__(self) -> None:
        for name in ("since", "until"):
            moment = getattr(self, name)
            if moment is not None and (not isinstance(moment, datetime.datetime) or moment.tzinfo is None):
                raise SettingError(
                    f"{name} is a datetime with a time zone, got {moment!r}; try .astimezone()"
                )

    def wants(self, entry: Entry) -> bool:
        """Return True if the entry matches. An unreadable line matches unless a kind is given."""
        if self.kind and entry.kind not in self.kind:
            return False
        if entry.kind == UNREADABLE:
            return True
        if self.session and entry.session != self.session:
            return False
        if self.name and not _fits(entry.name, self.name):
            return False
        if self.peer and not _fits(entry.peer, self.peer):
            return False
        return (self.since is None or moment(entry) >= self.since) and (
            self.until is None or moment(entry) < self.until
        )


class Audit(Displayed):
    """The entries of the log, oldest first, read from the file at each use. Only those of this duet, unless
    `filter` selects others. Reading needs as much memory as one entry.
    """

    def __init__(
        self,
        path: Path | None,
        session: str = "",
        begin_bytes: int = 0,
        wanted: EntryFilter | None = None,
        failure: str = "",
    ) -> None:
        self.path = path
        self._session = session
        self._begin_bytes = begin_bytes  # where the session begins
        self._wanted = wanted or EntryFilter(session=session)
        self._failure = failure

    def filter(
        self,
        *,
        kind: str | Collection[str] = (),
        name: str = "",
        peer: str = "",
        since: datetime.datetime | None = None,
        until: datetime.datetime | None = None,
        session: str = "",
    ) -> Audit:
        """Return the entries that match, from `since` on and before `until`. `session` is that of an entry,
        or "all"; empty: this duet. Raises SettingError.
        """
        kinds = (kind,) if kind and isinstance(kind, str) else tuple(kind)
        chosen = "" if session == ALL else session or self._session
        wanted = EntryFilter(kind=kinds, name=name, peer=peer, since=since, until=until, session=chosen)
        return Audit(self.path, self._session, self._begin_bytes, wanted, self._failure)

    def verify(self, *earlier: str | os.PathLike[str]) -> Report:
        """Verify the whole log and return what was found, in words. If its file was moved away, as logrotate
        does, pass the `earlier` files, oldest first.

        Raises:
            AuditBroken: an entry was changed, is missing or out of place; the message says which.
            AuditUnavailable: the log cannot be read, or none is kept.
        """
        report = verify(self._path(), [Path(file) for file in earlier])
        if not report.intact:
            raise AuditBroken(str(report))
        return report

    def export(self, path: str | os.PathLike[str]) -> int:
        """Write these entries to a new file, `.jsonl` (the lines as they are) or `.csv`; return their number.

        In the `.csv`, a text that a spreadsheet would take for a formula is prefixed with `'`.

        Raises:
            SettingError: the file has another suffix, or exists already.
            AuditUnavailable: the log cannot be read, or none is kept; or the file cannot be written.
        """
        target = Path(path)
        if target.suffix not in (".jsonl", ".csv"):
            raise SettingError(f"{target} must end in .jsonl or .csv")
        try:
            fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(fd, "w", encoding="utf-8", newline="", errors="backslashreplace") as file:
                if target.suffix == ".jsonl":
                    lines = (line.decode("ascii", "backslashreplace") for _, line in self._read())
                    return _count(file.write(line) for line in lines)
                writer = csv.writer(file)
                writer.writerow(_CSV_FIELDS)
                return _count(writer.writerow(_csv_row(entry)) for entry in self)
        except FileExistsError:
            raise SettingError(f"{target} is there already; choose another name") from None
        except OSError as error:
            if isinstance(error, AuditUnavailable):
                raise
            raise AuditUnavailable(f"{target} cannot be written: {error.strerror}") from error

    def __iter__(self) -> Iterator[Entry]:
        return (entry for entry, _ in self._read())

    def __len__(self) -> int:
        return _count(self)

    def _read(self) -> Iterator[tuple[Entry, bytes]]:
        begin_bytes, path = 0, self._path()
        if self._session and self._wanted.session == self._session:
            first = next(read.entries(path, self._begin_bytes), None)
            # otherwise the file was replaced meanwhile
            if first is not None and first[0].session == self._session:
                begin_bytes = self._begin_bytes
        for entry, line in read.entries(path, begin_bytes):
            if self._wanted.wants(entry):
                yield _printable(entry), line

    def _path(self) -> Path:
        if self.path is None:
            raise AuditUnavailable(
                "no audit log is kept: audit_path in the settings is empty (DUETLINK_AUDIT_PATH)"
            )
        return self.path

    def latest_lines(self, count: int) -> list[bytes]:
        """Return the lines of the latest `count` entries, as they are in the file."""
        return [line for _, line in collections.deque(self._read(), maxlen=count)]

    def table(self, most: int = _SHOWN) -> Table:
        """Return a table of the latest entries."""
        if self.path is None:
            return Table("Audit log: switched off (audit_path is empty)", _HEADERS, [], "nothing is recorded")
        latest: collections.deque[Entry] = collections.deque(maxlen=most)
        count = 0
        try:
            for entry in self:
                latest.append(entry)
                count += 1
        except AuditUnavailable as error:
            return audit_table(str(error), latest)
        counted = count_text(count, "entry", "entries")
        if count > most:
            counted = f"the latest {most} of {counted}"
        caption = f"Audit log: {counted}, in {self.path}"
        if self._failure:
            caption = f"{self._failure} | {caption}"
        return audit_table(caption, latest)


def _printable(entry: Entry) -> Entry:
    """Return the entry with control characters in its texts escaped. The file has the texts unescaped."""
    fields = {name: getattr(entry, name) for name in _CSV_FIELDS}
    shown: dict[str, Any] = {
        name: harmless_lines(value)
        for name, value in fields.items()
        if isinstance(value, str) and not value.isprintable()
    }
    return dataclasses.replace(entry, **shown) if shown else entry


def audit_table(caption: str, entries: Iterable[Entry]) -> Table:
    return Table(caption, _HEADERS, [_row(entry) for entry in entries], "no entry")


def moment(entry: Entry) -> datetime.datetime:
    """Return the time of an entry in UTC; the earliest possible time if it has none."""
    try:
        return datetime.datetime.fromisoformat(entry.when).astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        return datetime.datetime.min.replace(tzinfo=datetime.UTC)


def who_of(entry: Entry) -> str:
    """Return who did it, as shown to the person on this side: "you", or the peer's name."""
    return "you" if entry.kind in _OWN else entry.peer


def _row(entry: Entry) -> tuple[str, ...]:
    when = "" if not entry.when else moment(entry).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    what = " ".join(part for part in (entry.kind, entry.state) if part)
    revision = "" if entry.revision is None else f" ({entry.revision})"
    size = "" if entry.size_bytes is None else size_text(entry.size_bytes)
    if entry.left_bytes not in (None, entry.size_bytes):
        size = f"{size_text(entry.left_bytes or 0)} of {size}"
    words = entry.answer_reason or entry.reason or entry.verifier
    number = "" if entry.number < 0 else str(entry.number)
    return (
        number,
        when,
        what,
        who_of(entry),
        f"{entry.name}{revision}",
        size,
        by_words(entry.by),
        words,
        entry.path,
    )


def _csv_row(entry: Entry) -> list[str]:
    return [_csv_cell(getattr(entry, name)) for name in _CSV_FIELDS]


def _csv_cell(value: str | int | None) -> str:
    # https://owasp.org/www-community/attacks/CSV_Injection: these begin a formula
    risky = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
    return "" if value is None else f"'{value}" if risky else str(value)


def _fits(text: str, pattern: str) -> bool:
    return text == pattern or fnmatch.fnmatchcase(text, pattern)


def _count(items: Iterable[object]) -> int:
    return sum(1 for _ in items)
