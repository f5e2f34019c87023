"""Events, and the file that they go into: harmless by their types, and nothing to whoever does not listen."""

from __future__ import annotations

import json
import logging
import stat
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import duetlink
from duetlink.base import event_log, events
from duetlink.base.events import Address, AddressDialled, Event, PathFailed, PathOpened, Sink, Word
from duetlink.errors import PathUnavailable
from duetlink.testing.faults import set_constants


class Careless(Event, frozen=True):
    text: Any


class Patient1234(ValueError):
    """A class that a person has named."""


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[event_log.EventLog]:
    with duetlink.log_to(tmp_path / "report.jsonl") as opened:
        yield opened


def test_a_line_has_the_time_the_name_and_the_fields(log: event_log.EventLog) -> None:
    sink = Sink()
    sink.emit(PathFailed(Word("udp"), PathUnavailable, 0.1234567891, 2.0))
    began, failed = lines(log.path)
    assert began["event"] == "log_began"
    assert began["duetlink"] == duetlink.__version__
    assert failed.pop("time").endswith("+00:00")
    assert failed == {
        "event": "path_failed",
        "source": sink.source,
        "path": "udp",
        "error": "PathUnavailable",
        "took_s": 0.123457,
        "retry_s": 2.0,
    }


@pytest.mark.parametrize("text", ["secret", b"secret", ["secret"], PathUnavailable("secret"), {"secret": 1}])
def test_what_may_be_anybodys_text_is_withheld(log: event_log.EventLog, text: object) -> None:
    events.emit(Careless(text))
    assert lines(log.path)[-1]["text"] == "<withheld>"
    assert str(Careless(text)) == "careless text=<withheld>"


def test_of_an_error_the_first_class_of_python_or_duetlink_is_named(log: event_log.EventLog) -> None:
    for error in (Patient1234, PathUnavailable, OSError):
        events.emit(Careless(error))
    assert [line["text"] for line in lines(log.path)[1:]] == ["ValueError", "PathUnavailable", "OSError"]


def test_addresses_are_shown_to_whoever_asks_for_them(tmp_path: Path) -> None:
    dialled = AddressDialled(Word("tcp"), Address("192.0.2.7"), None)
    with duetlink.log_to(tmp_path / "a") as without, duetlink.log_to(tmp_path / "b", addresses=True) as shown:
        events.emit(dialled)
    assert lines(without.path)[-1]["address"] == "<address>"
    assert lines(shown.path)[-1]["address"] == "192.0.2.7"
    assert "192.0.2.7" not in f"{dialled!r} {dialled}"


def test_only_its_owner_reads_the_file(log: event_log.EventLog) -> None:
    assert sys.platform == "win32" or stat.S_IMODE(log.path.stat().st_mode) == 0o600


def test_nothing_is_written_after_it_is_closed(log: event_log.EventLog) -> None:
    log.close()
    log.close()
    events.emit(PathOpened(Word("tcp"), 0.1))
    assert [line["event"] for line in lines(log.path)] == ["log_began"]
    assert repr(log).endswith("closed>")


def test_the_file_has_an_end(log: event_log.EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    set_constants(monkeypatch, log, left_bytes=150)
    for _ in range(5):
        events.emit(PathOpened(Word("tcp"), 0.1))
    assert [line["event"] for line in lines(log.path)] == ["log_began", "path_opened", "log_full"]


def test_of_a_warning_the_file_gets_where_it_comes_from(
    log: event_log.EventLog, capsys: pytest.CaptureFixture[str]
) -> None:
    logger = logging.getLogger("duetlink.some.module")
    try:
        raise Patient1234("secret")
    except Patient1234:
        logger.exception("the secret %s", "secret")
    line = lines(log.path)[-1]
    assert (line["event"], line["level"], line["module"]) == ("logged", "ERROR", "duetlink.some.module")
    assert line["error"] == "ValueError"
    assert "secret" not in log.path.read_text(encoding="utf-8")


def test_a_log_hides_no_warning_that_python_prints_without_one(
    log: event_log.EventLog, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # those of pytest
    logging.getLogger("duetlink.some.module").warning("the disk is full")
    assert capsys.readouterr().err == "the disk is full\n"


def test_the_logger_gets_events_as_records(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "duetlink")
    sink, event = Sink(), PathOpened(Word("tcp"), 0.25)
    sink.emit(event)
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("duetlink", "INFO")
    assert record.getMessage() == "path_opened path=tcp took_s=0.25"
    assert vars(record)["event"] is event
    assert vars(record)["source"] == sink.source


def test_an_observer_that_fails_stops_nothing(log: event_log.EventLog) -> None:
    class Broken(logging.Handler):
        def handle(self, record: logging.LogRecord) -> bool:
            raise RuntimeError("broken")

    def broken(event: Event, source: int) -> None:
        raise RuntimeError("broken")

    logger, handler = logging.getLogger("duetlink"), Broken(logging.DEBUG)
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    unlisten = events.listen(broken)
    try:
        events.emit(PathOpened(Word("tcp"), 0.1))
    finally:
        unlisten()
        logger.setLevel(logging.NOTSET)
        logger.removeHandler(handler)
    assert lines(log.path)[-1]["event"] == "path_opened"


def test_a_watcher_that_fails_does_not_keep_the_others_from_hearing() -> None:
    sink, heard = Sink(), threading.Event()

    def broken() -> None:
        raise RuntimeError("broken")

    unwatch = sink.watch(broken)
    sink.watch(heard.set)
    sink.changed()
    assert heard.is_set()
    unwatch()
    unwatch()


def test_events_of_many_threads_are_whole_lines(log: event_log.EventLog) -> None:
    def emit() -> None:
        for _ in range(50):
            events.emit(PathOpened(Word("tcp"), 0.1))

    threads = [threading.Thread(target=emit) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [line["event"] for line in lines(log.path)[1:]] == ["path_opened"] * 200
