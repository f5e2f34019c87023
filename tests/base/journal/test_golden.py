"""Files written before there was a journal: read for ever, and written byte for byte alike."""

from __future__ import annotations

import datetime
import itertools
import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from duetlink.base.audit.entry import Entry
from duetlink.base.audit.log import AuditLog
from duetlink.base.audit.read import entries
from duetlink.base.audit.verify import verify
from duetlink.compute.privacy.ledger import Ledger

GOLDEN = Path(__file__).with_name("golden")
LOG = ("audit.jsonl", "audit.jsonl.head", "audit.jsonl.torn")
LEDGER = ("ledger.jsonl", "ledger.jsonl.head")


def ticking() -> Callable[[], datetime.datetime]:
    start = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
    seconds = itertools.count()
    return lambda: start + datetime.timedelta(seconds=next(seconds))


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    for name in (*LOG, *LEDGER):
        shutil.copy(GOLDEN / name, tmp_path / name)
    return tmp_path


def test_an_old_log_is_intact_read_and_continued(copied: Path) -> None:
    log = copied / "audit.jsonl"
    assert verify(log).intact
    found = [(entry.number, entry.kind, entry.reason) for entry, _ in entries(log)]
    assert found == [
        (0, "opened", "as owner"),
        (1, "share", ""),
        (2, "request", "two\nlines, \U0001f600"),
        (3, "answer", ""),
        (4, "recovered", "its last line was torn, 12 bytes, which are in audit.jsonl.torn"),
        (5, "release", ""),
    ]
    AuditLog(log).append([Entry(kind="closed", session="s")])
    report = verify(log)
    assert (report.intact, report.entries) == (True, 7)


def test_an_old_ledger_is_read_and_continued(copied: Path) -> None:
    ledger = Ledger(copied / "ledger.jsonl")
    assert (ledger.left("people"), ledger.left("others")) == (Decimal("1.15"), Decimal(2))
    assert [posting.what for posting in ledger.history("people")] == [
        "for the study",
        "mean of age, \u00e9",
        "count",
    ]
    ledger.charge("people", 1, "mean")
    assert Ledger(copied / "ledger.jsonl").left("people") == Decimal("0.15")


def test_a_log_is_written_as_it_was(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl", now=ticking())
    log.append([Entry(kind="opened", session="s", reason="as owner")])
    share = Entry(
        kind="share",
        session="s",
        name="scans",
        revision=1,
        value_kind="ndarray",
        size_bytes=72_000_000,
        fingerprint="ab" * 16,
    )
    log.append([share])
    request = Entry(
        kind="request",
        session="s",
        peer="olga \u2028 <b>",
        request=1,
        name="scans",
        revision=1,
        reason="two\nlines, \U0001f600",
    )
    answer = Entry(
        kind="answer", session="s", request=1, state="approved", by="policy two", answer_reason="yes"
    )
    log.append([request, answer])
    with log.path.open("ab") as file:
        file.write(b'{"kind":"rel')
    release = Entry(
        kind="release",
        session="s",
        request=1,
        transfer=7,
        name="scans",
        path="tcp",
        left_bytes=72_000_000,
        state="complete",
    )
    log.append([release], sync=False)
    for name in LOG:
        assert (tmp_path / name).read_bytes() == (GOLDEN / name).read_bytes()


def test_a_ledger_is_written_as_it_was(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl", now=ticking())
    ledger.set_budget("people", 1.5, "for the study")
    ledger.charge("people", 0.1, "mean of age, \u00e9")
    ledger.charge("people", Decimal("0.25"), "count")
    ledger.set_budget("others", 2)
    for name in LEDGER:
        assert (tmp_path / name).read_bytes() == (GOLDEN / name).read_bytes()
