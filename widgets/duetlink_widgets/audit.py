"""The entries of the audit log for the panel's `Audit` tab, and as a file to save."""

from __future__ import annotations

import collections
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from duetlink import Duet
from duetlink.base.audit.entry import Entry
from duetlink.duet.audit import moment, who_of
from duetlink.duet.display import by_words
from duetlink.errors import LimitExceeded, SettingError
from duetlink_widgets.contract import AuditPage, AuditRow, Export, Foreign

_ROWS = 100
_MOST_EXPORTED_BYTES = 8 * 1024 * 1024  # through the page; `duet.audit.export` has no limit


def page(duet: Duet, text: str, kind: str) -> dict[str, Any]:
    """Return the latest entries of this duet of a kind ("" for all) that contain `text`, ignoring case.

    Raises:
        AuditUnavailable: no log is kept, or it cannot be read.
    """
    wanted = text.casefold()
    latest: collections.deque[Entry] = collections.deque(maxlen=_ROWS)
    total = 0
    for entry in duet.audit.filter(kind=kind):
        if wanted in _searched(entry):
            latest.append(entry)
            total += 1
    return asdict(AuditPage(str(duet.audit.path), total, [_row(entry) for entry in reversed(latest)]))


def export(duet: Duet, ending: str) -> dict[str, Any]:
    """Return all entries of this duet as a file.

    Raises:
        SettingError: `ending` is neither "jsonl" nor "csv".
        LimitExceeded: the file is too large for the page.
    """
    if ending not in ("jsonl", "csv"):
        raise SettingError(f"an audit log is exported as jsonl or csv, not {ending!r}")
    with tempfile.TemporaryDirectory(prefix="duetlink-audit-") as directory:
        target = Path(directory) / f"duetlink-audit.{ending}"
        duet.audit.export(target)
        if target.stat().st_size > _MOST_EXPORTED_BYTES:
            raise LimitExceeded('the log is too large for the page; run duet.audit.export("audit.jsonl")')
        return asdict(Export(target.name, target.read_text(encoding="utf-8")))


def _searched(entry: Entry) -> str:
    who = (entry.peer, who_of(entry), by_words(entry.by))
    texts = (entry.kind, entry.state, *who, entry.name, entry.reason, entry.answer_reason)
    return "\n".join(texts).casefold()


def _row(entry: Entry) -> AuditRow:
    return AuditRow(
        entry.number,
        moment(entry).timestamp() if entry.when else 0.0,
        entry.kind,
        entry.state,
        Foreign(who_of(entry)),
        Foreign(entry.name),
        entry.revision,
        entry.size_bytes,
        entry.left_bytes,
        by_words(entry.by),
        Foreign(entry.answer_reason or entry.reason or entry.verifier),
        entry.path,
    )
