"""Logs with a clock that ticks once a second."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from duetlink.base.audit.entry import Entry
from duetlink.base.audit.log import AuditLog

START = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)

MakeLog = Callable[[Path], AuditLog]


def ticking_log(path: Path) -> AuditLog:
    seconds = itertools.count()
    return AuditLog(path, now=lambda: START + datetime.timedelta(seconds=next(seconds)))


def fill(log: AuditLog, count: int) -> None:
    """Entries 0 to `count - 1`, about objects of the same names."""
    for number in range(count):
        log.append([Entry(kind="share", session="s", name=f"object {number}")], sync=False)


@pytest.fixture
def log(tmp_path: Path) -> AuditLog:
    return ticking_log(tmp_path / "log" / "audit.jsonl")
