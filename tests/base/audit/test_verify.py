"""Whatever is changed in a log is found; what was not changed is not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duetlink.base.audit.entry import Entry
from duetlink.base.audit.log import AuditLog
from duetlink.base.audit.read import entries
from duetlink.base.audit.verify import MOST_FINDINGS, Report, verify
from duetlink.base.journal.files import read_head, write_head
from duetlink.base.journal.head import Head, seal
from duetlink.base.journal.line import hash_of
from duetlink.errors import AuditUnavailable
from tests.base.audit.conftest import fill, ticking_log

COUNT = 8
SETTINGS = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture
def spoil(tmp_path: Path) -> Callable[[bytes], Report]:
    """Verifies a log of COUNT entries with another content, and its own head."""
    original = ticking_log(tmp_path / "original.jsonl")
    fill(original, COUNT)
    log = tmp_path / "spoiled.jsonl"
    shutil.copy(original.path.with_name("original.jsonl.head"), tmp_path / "spoiled.jsonl.head")

    def spoil(content: bytes) -> Report:
        log.write_bytes(content)
        return verify(log)

    spoil.content = original.path.read_bytes()  # type: ignore[attr-defined]
    return spoil


def content_of(spoil: Callable[[bytes], Report]) -> bytes:
    return spoil.content  # type: ignore[attr-defined, no-any-return]


def whats(report: Report) -> list[tuple[int, str]]:
    return [(finding.line, finding.what) for finding in report.findings]


def test_what_was_not_changed_is_intact(spoil: Callable[[bytes], Report]) -> None:
    report = spoil(content_of(spoil))
    assert report.intact
    assert report.entries == COUNT
    assert report.hash == json.loads(content_of(spoil).splitlines()[-1])["hash"]
    assert str(report).startswith(f"{report.path}: 8 entries, none changed, none missing; the last one has")


def test_no_log_at_all_is_intact(tmp_path: Path) -> None:
    assert verify(tmp_path / "none.jsonl").intact
    assert list(tmp_path.iterdir()) == []


@SETTINGS
@given(data=st.data())
def test_any_changed_byte_is_found(spoil: Callable[[bytes], Report], data: st.DataObject) -> None:
    content = bytearray(content_of(spoil))
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    assert not spoil(bytes(content)).intact


@SETTINGS
@given(data=st.data())
def test_any_cut_off_end_is_found(spoil: Callable[[bytes], Report], data: st.DataObject) -> None:
    content = content_of(spoil)
    assert not spoil(content[: data.draw(st.integers(0, len(content) - 1))]).intact


@SETTINGS
@given(data=st.data())
def test_any_byte_more_or_less_is_found(spoil: Callable[[bytes], Report], data: st.DataObject) -> None:
    content = content_of(spoil)
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        assert not spoil(content[:place] + content[place + 1 :]).intact
    else:
        more = data.draw(st.binary(min_size=1, max_size=3))
        assert not spoil(content[:place] + more + content[place:]).intact


@SETTINGS
@given(order=st.lists(st.integers(0, COUNT - 1), max_size=2 * COUNT))
def test_any_other_choice_or_order_of_lines_is_found(
    spoil: Callable[[bytes], Report], order: list[int]
) -> None:
    lines = content_of(spoil).splitlines(keepends=True)
    assert spoil(b"".join(lines[number] for number in order)).intact == (order == list(range(COUNT)))


@pytest.mark.parametrize(
    ("order", "found"),
    [
        ([0, 1, 2, 4, 5, 6, 7], [(4, "missing", "entry 3 before it")]),
        ([2, 3, 4, 5, 6, 7], [(1, "missing", "entries 0 to 1 before it")]),
        ([0, 1, 2, 3, 4], [(6, "missing", "entries 5 to 7 at the end")]),
        ([], [(1, "missing", "entries 0 to 7 at the end")]),
        ([0, 1, 3, 2, 4, 5, 6, 7], [(4, "reordered", "entry 2 comes after entry 3")]),
        ([0, 1, 2, 2, 3, 4, 5, 6, 7], [(4, "repeated", "entry 2 is repeated here")]),
    ],
)
def test_what_is_wrong_is_said_with_its_place(
    spoil: Callable[[bytes], Report], order: list[int], found: list[tuple[int, str, str]]
) -> None:
    lines = content_of(spoil).splitlines(keepends=True)
    report = spoil(b"".join(lines[number] for number in order))
    assert [(finding.line, finding.what, finding.words) for finding in report.findings] == found


def test_one_changed_line_is_one_finding(spoil: Callable[[bytes], Report]) -> None:
    report = spoil(content_of(spoil).replace(b"object 3", b"object X"))
    assert whats(report) == [(4, "changed")]
    assert "line 4: changed: the line is not an entry as it was written: its hash is another" in str(report)
    assert report.entries == 7


def test_a_replaced_entry_with_a_right_hash_breaks_the_chain(spoil: Callable[[bytes], Report]) -> None:
    lines = content_of(spoil).splitlines(keepends=True)
    fields = json.loads(lines[3])
    forged = Entry(kind="share", session="s", name="forged").to_fields(fields["when"])
    lines[3], _ = seal(Head(2, fields["previous"]), forged)
    report = spoil(b"".join(lines))
    assert (5, "changed") in whats(report)
    assert "entry 4 does not follow" in str(report)


def test_a_chain_rewritten_to_its_end_does_not_fit_the_head(spoil: Callable[[bytes], Report]) -> None:
    lines = content_of(spoil).splitlines(keepends=True)[:5]
    end = Head(4, json.loads(lines[-1])["hash"])
    for _ in range(3):
        line, end = seal(end, Entry(kind="share", session="s", name="object 0").to_fields(""))
        lines.append(line)
    assert whats(spoil(b"".join(lines))) == [(0, "changed")]


@pytest.mark.parametrize("field", ["number", "hash", "size_bytes"])
def test_a_changed_head_is_found(tmp_path: Path, field: str) -> None:
    import dataclasses

    log = ticking_log(tmp_path / "audit.jsonl")
    fill(log, 3)
    head = read_head(log.path)
    assert head is not None
    other: dict[str, Any] = {"number": 1, "hash": hash_of({}), "size_bytes": 5}
    write_head(log.path, dataclasses.replace(head, **{field: other[field]}))
    assert not verify(log.path).intact


@SETTINGS
@given(data=st.data())
def test_any_byte_changed_in_the_head_is_found(tmp_path: Path, data: st.DataObject) -> None:
    log = ticking_log(tmp_path / "audit.jsonl")
    path = tmp_path / "audit.jsonl.head"
    if not path.exists():
        fill(log, 3)
        (tmp_path / "kept").write_bytes(path.read_bytes())
    content = bytearray((tmp_path / "kept").read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    assert not verify(log.path).intact


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"null",
        b"{}",
        b'{"hash":1}',
        b"[" * 100_000,
        b"\xff\xfe",
        b'{"number":1' + b"0" * 5000 + b"}",
    ],
)
def test_a_hostile_line_is_no_entry(spoil: Callable[[bytes], Report], line: bytes) -> None:
    assert whats(spoil(line + b"\n" + content_of(spoil)))[0] == (1, "changed")


def test_a_log_with_nothing_but_faults_is_told_of_briefly(spoil: Callable[[bytes], Report]) -> None:
    report = spoil(b"no entry\n" * 1000)
    assert len(report.findings) == MOST_FINDINGS
    assert report.more == 1000 - MOST_FINDINGS
    assert str(report).endswith("and 900 more")
    assert report.to_json()["more"] == 900


def test_a_log_that_grows_meanwhile_is_intact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = ticking_log(tmp_path / "audit.jsonl")
    fill(log, 3)
    from duetlink.base.audit import verify as module
    from duetlink.base.audit.read import lines

    def growing(*arguments: Any) -> object:
        fill(log, 2)
        return lines(*arguments)

    monkeypatch.setattr(module, "lines", growing)
    report = module.verify(log.path)
    assert report.intact
    assert report.entries == 3


def move_away(log: AuditLog, number: int, *, with_head: bool = False) -> Path:
    """As logrotate does with `create`: another name for the file, and an empty one in its place."""
    moved = log.path.with_name(f"audit.jsonl.{number}")
    log.path.rename(moved)
    log.path.touch(mode=0o600)
    if with_head:
        log.path.with_name("audit.jsonl.head").rename(moved.with_name(f"{moved.name}.head"))
    return moved


@pytest.mark.parametrize("with_head", [False, True], ids=["alone", "with its head"])
def test_a_log_that_was_moved_away_goes_on_and_both_files_together_are_intact(
    tmp_path: Path, with_head: bool
) -> None:
    log = ticking_log(tmp_path / "audit.jsonl")
    fill(log, 3)
    first = move_away(log, 2, with_head=with_head)
    fill(log, 2)
    second = move_away(log, 1, with_head=with_head)
    fill(log, 1)
    found = [entry for entry, _ in entries(log.path)]
    assert [(entry.number, entry.kind) for entry in found] == [(6, "recovered"), (7, "share")]
    assert found[0].reason == "its file was moved away, removed or emptied: it held entries up to 5"
    alone = verify(log.path)
    assert whats(alone) == [(1, "missing")]
    assert alone.findings[0].words == (
        "entries 0 to 5 before it, in a file that was moved away or removed: verify that one together with "
        "this, as the earlier one"
    )
    whole = verify(log.path, [first, second])
    assert (whole.intact, whole.entries) == (True, 8)
    assert [str(finding) for finding in verify(log.path, [first]).findings] == [
        "line 1: missing: entries 3 to 5 before it, in a file that was moved away or removed: verify that "
        "one together with this, as the earlier one"
    ]
    second.write_bytes(second.read_bytes().replace(b"object 1", b"object X"))
    assert [str(finding) for finding in verify(log.path, [first, second]).findings] == [
        f"{second}, line 3: changed: the line is not an entry as it was written: its hash is another"
    ]
    with pytest.raises(AuditUnavailable, match=r"the earlier file .* does not exist"):
        verify(log.path, [first.with_name("audit.jsonl.3"), first, second])


def test_an_older_copy_in_the_place_of_the_log_is_noted(tmp_path: Path) -> None:
    log = ticking_log(tmp_path / "audit.jsonl")
    head = log.path.with_name("audit.jsonl.head")
    fill(log, 2)
    older = log.path.read_bytes(), head.read_bytes()
    fill(log, 2)
    log.path.write_bytes(older[0])
    head.write_bytes(older[1])
    fill(log, 1)
    found = [entry for entry, _ in entries(log.path)]
    assert [entry.kind for entry in found] == ["share", "share", "recovered", "share"]
    assert found[2].reason == "an older file was put in its place: it held entries up to 3"
