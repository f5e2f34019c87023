"""Verify that a log is unchanged, and report what is wrong at which line.

The verification follows the chain and knows the number and the hash that the next entry must name. An entry
with a valid hash and an unexpected number is out of place: entries before it are missing or stand further
down, or it is a repetition.

If the file was moved away, as logrotate does, the chain continues in the new file, with an entry that says
so. Together, the oldest first, the files are one log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from duetlink.base.audit.entry import MAX_LINE_BYTES, RECOVERED
from duetlink.base.audit.log import AuditLog
from duetlink.base.audit.read import lines
from duetlink.base.journal.head import Head
from duetlink.base.journal.line import FIRST, parse
from duetlink.base.quantities import count_text
from duetlink.errors import AuditUnavailable

CHANGED, MISSING, REORDERED, REPEATED, TORN = "changed", "missing", "reordered", "repeated", "torn"
MOST_FINDINGS = 100  # described findings; further ones are only counted
_MOST_GAPS = 10_000
_MOVED = ", in a file that was moved away or removed: verify that one together with this, as the earlier one"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, at a line of the file (1, 2, …; 0: of the head file).

    `file` names an earlier file; it is empty for the log itself.
    """

    line: int
    what: str
    words: str
    file: str = ""

    def __str__(self) -> str:
        where = f"line {self.line}" if self.line else "head file"
        where = f"{self.file}, {where}" if self.file else where
        return f"{where}: {self.what}: {self.words}"


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a verification.

    `hash` is that of the last entry: if it is noted elsewhere, it proves later that the log is unchanged.
    """

    path: Path
    entries: int
    hash: str
    findings: tuple[Finding, ...] = ()
    more: int = 0  # number of further findings

    @property
    def intact(self) -> bool:
        return not self.findings

    def to_json(self) -> dict[str, Any]:
        """Return the report in the schema `duetlink-audit/1`."""
        return {
            "schema": "duetlink-audit/1",
            "path": str(self.path),
            "intact": self.intact,
            "entries": self.entries,
            "hash": self.hash,
            "findings": [
                {"line": finding.line, "what": finding.what, "words": finding.words}
                | ({"file": finding.file} if finding.file else {})
                for finding in self.findings
            ],
            "more": self.more,
        }

    def __str__(self) -> str:
        if self.intact:
            last = f"; the last one has the hash {self.hash}" if self.entries else ""
            counted = count_text(self.entries, "entry", "entries")
            return f"{self.path}: {counted}, none changed, none missing{last}"
        found = "\n".join(f"  {finding}" for finding in self.findings)
        more = f"\n  and {self.more:,} more" if self.more else ""
        return f"{self.path}: not as it was written\n{found}{more}"

    __repr__ = __str__


def verify(path: Path, earlier: Sequence[Path] = ()) -> Report:
    """Check the log at `path`, up to its present size, and compare its end with the head file.

    `earlier` are the files that were moved away before, the oldest first.

    Raises:
        AuditUnavailable: one of them cannot be read, or an earlier one does not exist.
    """
    head, size_bytes = AuditLog(path).snapshot()
    verification = _Verification(head)
    for file in earlier:
        if not file.exists():
            raise AuditUnavailable(f"the earlier file {file} of the audit log does not exist")
        verification.begin(str(file))
        for line in lines(file):
            verification.take(line)
    verification.begin("")
    for line in lines(path, 0, size_bytes):
        verification.take(line)
    return verification.report(path)


@dataclass(slots=True)
class _Verification:
    """The state of a verification, one step per line."""

    head: Head | None
    file: str = ""
    line: int = 0
    position_bytes: int = 0
    entries: int = 0
    next_number: int = 0
    last_hash: str = FIRST
    unreadable: int = 0  # lines since the last entry
    # missing entries: first number, number after the last, and the line and file before which they belong
    gaps: list[tuple[int, int, int, str]] = field(default_factory=list)
    moved: set[tuple[int, str]] = field(default_factory=set)  # lines that record the move to a new file
    findings: list[Finding] = field(default_factory=list)
    more: int = 0
    displaced: bool = False  # the entry that the head names is at another offset

    def begin(self, file: str) -> None:
        """Start the next file; an empty name means the present log."""
        self.file, self.line, self.position_bytes = file, 0, 0

    def take(self, line: bytes) -> None:
        self.line += 1
        self.position_bytes += len(line)
        if len(line) >= MAX_LINE_BYTES:
            self.unreadable += 1
            return self._found(CHANGED, "the line is longer than an entry can be")
        if not line.endswith(b"\n"):
            self.unreadable += 1
            return self._found(
                TORN, "a crash interrupted its writing; the next entry moves it to the .torn file"
            )
        try:
            fields = parse(line[:-1])
        except ValueError as error:
            self.unreadable += 1
            return self._found(CHANGED, f"the line is not an entry as it was written: {error}")
        self.entries += 1
        number = fields["number"]
        if self.line == 1 and fields.get("kind") == RECOVERED:
            self.moved.add((self.line, self.file))
        if number < self.next_number:
            return self._behind(number)
        self._check_link(number, fields["previous"])
        self._check_head(number, fields["hash"])
        self.next_number, self.last_hash, self.unreadable = number + 1, fields["hash"], 0
        return None

    def _behind(self, number: int) -> None:
        for index, (first, behind, line, file) in enumerate(self.gaps):
            if first <= number < behind:
                parts = [(first, number, line, file), (number + 1, behind, line, file)]
                self.gaps[index : index + 1] = [part for part in parts if part[0] < part[1]]
                return self._found(REORDERED, f"entry {number} comes after entry {self.next_number - 1}")
        return self._found(REPEATED, f"entry {number} is repeated here")

    def _check_link(self, number: int, previous: str) -> None:
        if number > self.next_number + self.unreadable:
            if len(self.gaps) >= _MOST_GAPS:
                self.more += 1
            else:
                self.gaps.append((self.next_number, number, self.line, self.file))
        elif number == self.next_number and previous != self.last_hash:
            self._found(CHANGED, f"entry {number} does not follow from the one before it: one was replaced")

    def _check_head(self, number: int, hash_: str) -> None:
        head = self.head
        if head is None or self.file or number != head.number:
            return
        if hash_ != head.hash:
            self._found(CHANGED, f"the head file names another entry {number}", 0)
        elif self.position_bytes != head.size_bytes:
            self.displaced = True  # because lines before it were changed, or the head was

    def _found(self, what: str, words: str, line: int | None = None, file: str | None = None) -> None:
        if len(self.findings) >= MOST_FINDINGS:
            self.more += 1
        else:
            where = self.line if line is None else line
            self.findings.append(Finding(where, what, words, self.file if file is None else file))

    def report(self, path: Path) -> Report:
        """Return the findings, in the order of the lines."""
        if self.head is None and self.line:
            self._found(MISSING, "it is not there or damaged; an end that was cut off would not be found", 0)
        behind = self.head.number + 1 if self.head is not None else 0
        if behind > self.next_number + self.unreadable:
            self.line += 1
            self._found(MISSING, f"{_entries(self.next_number, behind)} at the end")
        for first, behind, line, file in self.gaps:
            why = _MOVED if (line, file) in self.moved else ""
            self._found(MISSING, f"{_entries(first, behind)} before it{why}", line, file)
        if self.displaced and not self.findings:
            self._found(CHANGED, "it names another place for its entry", 0)
        # the present log's findings come last; within a file they are sorted by line
        files = {name: order for order, name in enumerate(dict.fromkeys(each.file for each in self.findings))}
        files[""] = len(files)
        findings = sorted(self.findings, key=lambda finding: (files[finding.file], finding.line))
        return Report(path, self.entries, self.last_hash, tuple(findings), self.more)


def _entries(first: int, behind: int) -> str:
    return f"entry {first}" if behind - first == 1 else f"entries {first} to {behind - 1}"
