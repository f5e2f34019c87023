"""The file: what a line looks like, who may read it, and what is left of a crash."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from duetlink.base.audit.entry import MAX_LINE_BYTES, MAX_TEXT, Entry
from duetlink.base.audit.log import AuditLog
from duetlink.base.audit.read import entries
from duetlink.base.audit.verify import verify
from duetlink.base.journal.lock import JournalLock
from duetlink.errors import AuditUnavailable
from tests.base.audit.conftest import fill, ticking_log


def read(log: AuditLog) -> list[Entry]:
    return [entry for entry, _ in entries(log.path)]


def test_a_line_is_canonical_json_with_a_hash_that_anybody_can_compute(log: AuditLog) -> None:
    log.append([Entry(kind="share", session="s", name="scans", revision=1, size_bytes=72)])
    log.append([Entry(kind="unshare", session="s", name="scans")])
    first, second = log.path.read_bytes().splitlines()
    unhashed = (
        b'{"kind":"share","name":"scans","number":0,"previous":"'
        + b"0" * 64
        + b'","revision":1,"session":"s",'
        b'"size_bytes":72,"when":"2026-01-01T12:00:00.000000+00:00"}'
    )
    digest = hashlib.sha256(unhashed).hexdigest()
    assert first == b'{"hash":"' + digest.encode() + b'",' + unhashed[1:]
    assert json.loads(second)["previous"] == digest
    assert json.loads(second)["number"] == 1


def test_only_the_owner_may_read_what_the_log_consists_of(log: AuditLog) -> None:
    log.append([Entry(kind="share")])
    with log.path.open("ab") as file:
        file.write(b"torn")
    log.append([Entry(kind="share")])
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in log.path.parent.iterdir()}
    names = ("audit.jsonl", "audit.jsonl.head", "audit.jsonl.lock", "audit.jsonl.torn")
    assert files == dict.fromkeys(names, 0o600)
    assert stat.S_IMODE(log.path.parent.stat().st_mode) == 0o700


def test_a_log_that_others_could_read_is_closed_to_them(log: AuditLog) -> None:
    log.append([Entry(kind="share")])
    log.path.chmod(0o644)
    log.append([Entry(kind="share")])
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600


def test_overlong_texts_are_cut_and_the_longest_entry_fits_a_line(log: AuditLog) -> None:
    texts = ("session", "peer", "name", "value_kind", "fingerprint", "reason", "state", "answer_reason")
    longest = dict.fromkeys((*texts, "by", "path", "verifier", "lineage"), "\U0001f600" * 5000)
    log.append([Entry(kind="request", **longest)])  # type: ignore[arg-type]
    (line,) = log.path.read_bytes().splitlines()
    assert len(line) < MAX_LINE_BYTES
    (entry,) = read(log)
    assert entry.reason == "\U0001f600" * (MAX_TEXT - 1) + "…"
    assert verify(log.path).intact


@pytest.mark.parametrize(
    "text", ["two\nlines", "\r\n", '"}\n{"', "\u2028\x85", "\ud800", "\x00", "\x1b[2J", "<b>"]
)
def test_any_text_stays_in_its_line_and_comes_back(log: AuditLog, text: str) -> None:
    log.append([Entry(kind="request", reason=text, peer=text), Entry(kind="answer")])
    assert log.path.read_bytes().count(b"\n") == 2
    assert log.path.read_bytes().isascii()
    assert [entry.reason for entry in read(log)] == [text, ""]
    assert verify(log.path).intact


def test_several_entries_are_written_in_their_order(log: AuditLog) -> None:
    assert log.append([Entry(kind="request"), Entry(kind="answer")]) == 0
    begin_bytes = log.path.stat().st_size
    assert log.append([Entry(kind="release")]) == begin_bytes
    assert [(entry.number, entry.kind) for entry in read(log)] == [
        (0, "request"),
        (1, "answer"),
        (2, "release"),
    ]


# -- several writers ---------------------------------------------------------------------------------------

_WRITER = """
import sys
from pathlib import Path
from duetlink.base.audit.entry import Entry
from duetlink.base.audit.log import AuditLog
log = AuditLog(Path(sys.argv[1]))
sys.stdin.read()
for number in range(150):
    log.append([Entry(kind="share", session=sys.argv[2], revision=number)], sync=number % 50 == 0)
"""


def test_two_processes_and_two_threads_append_at_once(log: AuditLog) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", _WRITER, str(log.path), name], stdin=subprocess.PIPE)
        for name in ("a", "b")
    ]

    def write(session: str) -> None:
        for number in range(150):
            log.append([Entry(kind="share", session=session, revision=number)], sync=False)

    threads = [threading.Thread(target=write, args=(name,)) for name in ("c", "d")]
    for thread in threads:
        thread.start()
    for process in processes:
        process.communicate(b"", timeout=60)
    for thread in threads:
        thread.join(60)
    assert [process.returncode for process in processes] == [0, 0]
    assert verify(log.path).intact
    found = read(log)
    assert len(found) == 600
    for session in "abcd":
        assert [entry.revision for entry in found if entry.session == session] == list(range(150))


def test_a_lock_that_is_not_let_go_is_an_error_in_time(log: AuditLog) -> None:
    log.append([Entry(kind="share")])
    impatient = AuditLog(log.path, lock_timeout_s=0.05)
    caught: list[AuditUnavailable] = []

    def write() -> None:
        with pytest.raises(AuditUnavailable, match="held by another process") as error:
            impatient.append([Entry(kind="share")])
        caught.append(error.value)

    with JournalLock(log.path, 5.0).held():
        thread = threading.Thread(target=write)
        thread.start()
        thread.join(10)
    assert len(caught) == 1


def test_what_cannot_be_appended_at_once_is_not_written(log: AuditLog) -> None:
    assert log.append_at_once([Entry(kind="group", name="first")])
    with JournalLock(log.path, 5.0).held():
        found: list[bool] = []
        thread = threading.Thread(
            target=lambda: found.append(log.append_at_once([Entry(kind="group", name="second")]))
        )
        thread.start()
        thread.join(10)
    assert found == [False]
    assert log.append_at_once([Entry(kind="group", name="third")])
    assert [entry.name for entry in read(log)] == ["first", "third"]
    assert verify(log.path).intact


def test_a_log_that_was_moved_away_is_not_made_anew_by_a_sync(log: AuditLog, tmp_path: Path) -> None:
    fill(log, 1)
    log.sync()
    log.path.rename(tmp_path / "moved")
    log.sync()
    assert not log.path.exists()


# -- crashes and full disks --------------------------------------------------------------------------------

_CRASH = """
import os, sys
from pathlib import Path
from duetlink.base.audit.entry import Entry
from duetlink.base.audit.log import AuditLog
write = os.write
def torn(fd, content):
    write(fd, bytes(content)[:100])
    os._exit(9)
os.write = torn
AuditLog(Path(sys.argv[1])).append([Entry(kind="release", name="the last one")])
"""


def test_a_line_torn_by_a_crash_is_found_and_put_aside(log: AuditLog) -> None:
    fill(log, 3)
    whole = log.path.read_bytes()
    done = subprocess.run([sys.executable, "-c", _CRASH, str(log.path)], timeout=60, check=False)
    assert done.returncode == 9
    torn = log.path.read_bytes()[len(whole) :]
    assert len(torn) == 100
    report = verify(log.path)
    assert [finding.what for finding in report.findings] == ["torn"]

    log.append([Entry(kind="share", session="next", name="after")])
    assert verify(log.path).intact
    assert log.path.read_bytes().startswith(whole)
    recovered, after = read(log)[3:]
    assert (recovered.kind, recovered.session) == ("recovered", "next")
    assert recovered.reason == "its last line was torn, 100 bytes, which are in audit.jsonl.torn"
    assert after.name == "after"
    (aside,) = (log.path.parent / "audit.jsonl.torn").read_text().splitlines()
    assert base64.b64decode(json.loads(aside)["torn_base64"]) == torn
    assert json.loads(aside)["begin_bytes"] == len(whole)


def test_entries_whose_writer_died_before_the_head_are_taken_in(log: AuditLog) -> None:
    fill(log, 2)
    head = log.path.with_name("audit.jsonl.head")
    before = head.read_bytes()
    fill(log, 2)
    head.write_bytes(before)
    assert verify(log.path).intact
    log.append([Entry(kind="share")])
    assert [entry.number for entry in read(log)] == [0, 1, 2, 3, 4]
    assert verify(log.path).intact


def test_a_cut_off_end_stays_a_gap_when_the_log_goes_on(log: AuditLog) -> None:
    fill(log, 5)
    lines = log.path.read_bytes().splitlines(keepends=True)
    log.path.write_bytes(b"".join(lines[:2]))
    log.append([Entry(kind="share", name="after")])
    assert [(entry.number, entry.kind) for entry in read(log)][2:] == [(5, "recovered"), (6, "share")]
    assert "its end was missing" in read(log)[2].reason
    assert [finding.words for finding in verify(log.path).findings] == ["entries 2 to 4 before it"]


def test_a_log_that_was_taken_away_stays_a_gap(log: AuditLog) -> None:
    fill(log, 2)
    log.path.unlink()
    log.append([Entry(kind="share")])
    assert [finding.words for finding in verify(log.path).findings] == [
        "entries 0 to 1 before it, in a file that was moved away or removed: verify that one together with "
        "this, as the earlier one"
    ]


def test_a_head_that_was_taken_away_is_made_anew_and_noted(log: AuditLog) -> None:
    fill(log, 2)
    log.path.with_name("audit.jsonl.head").unlink()
    assert [str(finding) for finding in verify(log.path).findings] == [
        "head file: missing: it is not there or damaged; an end that was cut off would not be found"
    ]
    log.append([Entry(kind="share")])
    assert [entry.kind for entry in read(log)] == ["share", "share", "recovered", "share"]
    assert read(log)[2].reason == "its head file was missing or damaged"
    assert verify(log.path).intact


def test_foreign_lines_at_the_end_stay_where_they_are(log: AuditLog) -> None:
    fill(log, 2)
    with log.path.open("ab") as file:
        file.write(b"something else\n")
    log.append([Entry(kind="share")])
    log.append([Entry(kind="share")])
    assert [finding.line for finding in verify(log.path).findings] == [3]
    assert [entry.number for entry in read(log)] == [0, 1, -1, 2, 3, 4]


def test_a_foreign_flood_without_a_newline_stays_where_it_is(log: AuditLog) -> None:
    fill(log, 2)
    with log.path.open("ab") as file:
        file.write(b"x" * (3 * MAX_LINE_BYTES))
    log.append([Entry(kind="share")])
    report = verify(log.path)
    assert [(finding.line, finding.what) for finding in report.findings] == [(3, "changed")]
    assert report.entries == 4  # with the one that says what was found


def test_a_full_disk_leaves_the_log_as_it_was(log: AuditLog, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(log, 2)
    whole = log.path.read_bytes()
    write = os.write

    def full(fd: int, content: memoryview) -> int:
        if len(content) > 50:
            return write(fd, content[:50])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", lambda fd, content: full(fd, memoryview(content)[:60]))
    with pytest.raises(AuditUnavailable, match=r"No space left on device.*Make room"):
        log.append([Entry(kind="share")])
    monkeypatch.undo()
    assert log.path.read_bytes() == whole
    log.append([Entry(kind="share")])
    assert verify(log.path).intact


def test_a_place_where_no_log_can_be_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="DUETLINK_AUDIT_PATH"):
        AuditLog(tmp_path / "file" / "audit.jsonl").append([Entry(kind="share")])


def test_an_entry_of_a_newer_version_is_verified_and_read(log: AuditLog) -> None:
    from duetlink.base.journal.files import write_head
    from duetlink.base.journal.head import Head
    from duetlink.base.journal.line import FIRST, canonical, hash_of

    fields = {"kind": "run", "number": 0, "previous": FIRST, "code": "f(x)", "when": "", "session": "s"}
    line = canonical(fields | {"hash": hash_of(fields)}) + b"\n"
    log.path.parent.mkdir()
    log.path.write_bytes(line)
    write_head(log.path, Head(0, hash_of(fields), len(line)))
    assert verify(log.path).intact
    assert [(entry.kind, entry.session) for entry in read(log)] == [("run", "s")]
    fill(log, 1)
    assert verify(log.path).intact


@pytest.mark.skipif(os.name != "posix", reason="links are for administrators there")
@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("part", ["audit.jsonl", "audit.jsonl.head"])
def test_a_link_in_place_of_the_log_is_not_followed(tmp_path: Path, part: str, is_there: bool) -> None:
    target = tmp_path / "target"
    if is_there:
        target.write_text("another file of the owner's")
        target.chmod(0o644)
    (tmp_path / part).symlink_to(target)
    with pytest.raises(AuditUnavailable, match="a symbolic link, which is not followed"):
        ticking_log(tmp_path / "audit.jsonl").append([Entry(kind="share", session="s")])
    assert target.exists() == is_there
    if is_there:
        assert target.read_text() == "another file of the owner's"
        assert stat.S_IMODE(target.stat().st_mode) == 0o644


@pytest.mark.skipif(os.name != "posix", reason="links are for administrators there")
def test_a_directory_of_the_log_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "logs").symlink_to(tmp_path / "disk")
    ticking_log(tmp_path / "logs" / "audit.jsonl").append([Entry(kind="share", session="s")])
    assert (tmp_path / "disk" / "audit.jsonl").stat().st_size > 0
