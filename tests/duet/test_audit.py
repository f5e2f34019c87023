"""What a duet puts down in its audit log, and that nothing leaves without."""

from __future__ import annotations

import csv
import datetime
import json
import logging
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import duetlink
from duetlink import errors
from duetlink.base.audit.entry import Entry
from duetlink.base.audit.log import AuditLog
from duetlink.base.audit.read import entries
from duetlink.base.audit.verify import verify
from duetlink.duet.duet import Duet
from duetlink.duet.objects.recorder import Recorder
from duetlink.net.link.transfer import Transfer
from duetlink.testing.faults import life_of
from tests.duet.test_duet import answering, pointer, until

Pair = tuple[Duet, Duet]


def kinds(duet: Duet) -> list[str]:
    return [f"{entry.kind} {entry.state}".strip() for entry in duet.audit]


def break_log(path: Path) -> None:
    """Nothing can be written there any more, by root neither: the directory is a file now."""
    path.parent.rename(path.parent.with_name("kept"))
    path.parent.write_text("")


def mend_log(path: Path) -> None:
    path.parent.unlink()
    path.parent.with_name("kept").rename(path.parent)


# -- what is put down --------------------------------------------------------------------------------------


def test_one_line_for_each_thing_that_happened(duets: Pair, private_audit_log: Path) -> None:
    owner, scientist = duets
    owner.share(np.zeros(100), "x", lossy="float16")
    owner.share(np.zeros(500_000), "large")
    answering(owner, lambda request: request.approve(), 2)
    pointer(scientist, "x").get(reason="small")
    pointer(scientist, "large").get(reason="large")
    until(lambda: kinds(owner).count("release complete") == 2)
    owner.share(2, "y")
    answering(owner, lambda request: request.deny("no"))
    with pytest.raises(errors.RequestDenied):
        pointer(scientist, "y").get()
    scientist.send([1], "given")
    scientist.close("bye")
    until(lambda: owner.state.startswith("closed"))
    owner.close()
    found = {(entry.kind, entry.state, entry.name): entry for entry in owner.audit}
    assert list(found) == [
        ("opened", "", ""),
        ("connected", "", ""),
        ("share", "", "x"),
        ("share", "", "large"),
        ("request", "", "x"),
        ("answer", "approved", "x"),
        ("release", "complete", "x"),
        ("request", "", "large"),
        ("answer", "approved", "large"),
        ("release", "begun", "large"),
        ("release", "complete", "large"),
        ("share", "", "y"),
        ("request", "", "y"),
        ("answer", "denied", "y"),
        ("closed", "", ""),
    ]
    assert {entry.session for entry in owner.audit} == {life_of(owner).recorder.session}
    assert found["opened", "", ""].reason == "as owner"
    assert found["connected", "", ""].verifier == owner.verifier
    assert found["connected", "", ""].peer == "Sven"
    assert found["closed", "", ""].reason.startswith("the peer closed the link: bye")
    share = found["share", "", "x"]
    assert (share.revision, share.value_kind, share.peer) == (1, "numpy.ndarray", "Sven")
    assert share.lineage.startswith("float16: ")
    request = found["request", "", "large"]
    assert (request.request, request.reason) == (1, "large")
    assert (found["answer", "denied", "y"].by, found["answer", "denied", "y"].answer_reason) == (
        "person",
        "no",
    )
    small = found["release", "complete", "x"]
    assert (small.path, small.size_bytes, small.left_bytes) == ("inline", share.size_bytes, share.size_bytes)
    assert (small.reason, small.by) == (found["request", "", "x"].reason, "person")
    begun, complete = found["release", "begun", "large"], found["release", "complete", "large"]
    assert (begun.reason, complete.reason, complete.by) == ("large", "large", "person")
    assert (begun.request, begun.transfer, begun.left_bytes) == (1, 1, None)
    assert (complete.transfer, complete.left_bytes) == (1, complete.size_bytes)
    assert len(begun.fingerprint) == 32
    assert begun.fingerprint == complete.fingerprint
    assert complete.path in ("local", "tcp", "channel")
    assert kinds(scientist) == ["opened", "connected", "gift complete", "closed"]
    assert verify(private_audit_log).intact


def test_asking_again_for_what_was_granted_is_put_down_each_time(duets: Pair) -> None:
    owner, scientist = duets
    owner.share(1, "x")
    answering(owner, lambda request: request.approve())
    pointer(scientist, "x").get(reason="first")
    pointer(scientist, "x").get(reason="second")
    assert kinds(owner)[3:] == 2 * ["request", "answer approved", "release complete"]
    assert [entry.reason for entry in owner.audit.filter(kind="request")] == ["first", "second"]
    assert [entry.request for entry in owner.audit.filter(kind="release")] == [0, 0]


def test_a_withdrawn_request_and_an_unshared_object(duets: Pair) -> None:
    owner, scientist = duets
    asset = owner.share(1, "x")
    with pytest.raises(errors.RequestTimeout):
        pointer(scientist, "x").get(timeout_s=0.05)
    until(lambda: "withdrawn" in kinds(owner))
    pending = pointer(scientist, "x").request()
    owner.wait_request(10)
    asset.unshare()
    with pytest.raises(errors.RequestDenied):
        pending.result(10)
    until(lambda: "answer denied" in kinds(owner))
    assert kinds(owner)[3:] == ["request", "withdrawn", "request", "unshare", "answer denied"]
    last = list(owner.audit)[-1]
    assert (last.by, last.answer_reason) == ("person", "'x' is no longer shared")


def test_what_had_left_when_a_transfer_was_cancelled(make_duets: Any) -> None:
    owner, scientist = make_duets(only=("tcp",))
    scientist.compression.rate_cap_bytes_per_s = 2e6
    owner.share(np.random.default_rng(1).bytes(40_000_000), "noise")
    answering(owner, lambda request: request.approve())
    pending = pointer(scientist, "noise").request()
    until(lambda: any(transfer.done_bytes for transfer in owner.transfers))
    pending.withdraw()
    until(lambda: "release cancelled" in kinds(owner))
    (ended,) = (entry for entry in owner.audit if entry.state == "cancelled")
    assert ended.left_bytes is not None
    assert 0 < ended.left_bytes < ended.size_bytes
    assert ended.path == "tcp"


@pytest.mark.parametrize(("mapped", "left_bytes"), [(False, 40), (True, 100)])
async def test_what_was_mapped_counts_as_left_whole(tmp_path: Path, mapped: bool, left_bytes: int) -> None:
    recorder = Recorder(AuditLog(tmp_path / "audit.jsonl"))
    transfer = Transfer("x", "out", 100)
    transfer.done_bytes, transfer.mapped = 40, mapped
    begun = Entry(kind="release", name="x", state="begun", size_bytes=100)
    await recorder.let_out(begun, transfer=transfer)
    transfer.end("cancelled")
    await recorder.record(Entry(kind="closed"))
    recorder.close()
    (_, ended, _) = (entry for entry, _ in entries(tmp_path / "audit.jsonl"))
    assert (ended.state, ended.left_bytes) == ("cancelled", left_bytes)


def test_no_value_is_in_any_file_of_the_log(duets: Pair, private_audit_log: Path) -> None:
    owner, scientist = duets
    pattern = 0x5EC2E7DA7A5EC2E7
    owner.share(np.full(100_000, pattern, np.uint64), "array", description="the description", tags=["a tag"])
    owner.share({"patient": "Erika Mustermann"}, "record")
    owner.share(pd.DataFrame({"diagnosis": ["influenza"] * 5}), "frame")
    owner.share(77_123_456_789, "number")
    answering(owner, lambda request: request.approve(), 3)
    for name in ("array", "record", "frame"):
        pointer(scientist, name).get(reason="to look")
    answering(owner, lambda request: request.deny("no"))
    with pytest.raises(errors.RequestDenied):
        pointer(scientist, "number").get()
    owner.send("a secret text", "gift")
    owner.close()
    scientist.close()
    written = b"".join(path.read_bytes() for path in private_audit_log.parent.iterdir())
    for secret in (
        pattern.to_bytes(8, "little"), str(pattern).encode(), hex(pattern).encode()[2:], b"77123456789",
        b"Mustermann", b"patient", b"influenza", b"diagnosis", b"a secret text",
    ):  # fmt: skip
        assert secret not in written
    assert b"to look" in written


def test_the_peers_hostile_words_stay_in_their_line(duets: Pair, private_audit_log: Path) -> None:
    owner, scientist = duets
    owner.share(1, 'x\n{"kind":"answer"}')
    words = '"}\n{"kind":"release","by":"person"}\n<script>\x1b[31m\u202e' + "w" * 5000
    answering(owner, lambda request: request.deny("no"))
    with pytest.raises(errors.RequestDenied):
        pointer(scientist, 'x\n{"kind":"answer"}').get(reason=words)
    assert verify(private_audit_log).intact
    (request,) = owner.audit.filter(kind="request")
    assert request.reason == words[:2000].replace("\x1b", r"\x1b").replace("\u202e", r"\u202e")
    until(lambda: kinds(owner)[-1] == "answer denied")
    for shown in (repr(owner.audit), owner.audit._repr_html_()):
        assert "\x1b" not in shown
        assert "\u202e" not in shown
    assert "<script>" not in owner.audit._repr_html_()
    who = {row[2]: row[3] for row in owner.audit.table().rows}
    assert (who["share"], who["opened"], who["request"], who["connected"]) == ("you", "you", "Sven", "Sven")


def test_many_requests_at_once_are_put_down_in_order(duets: Pair, private_audit_log: Path) -> None:
    owner, scientist = duets
    owner.share(1, "x")
    found = pointer(scientist, "x")
    pending = [found.request(str(number)) for number in range(40)]
    until(lambda: len(owner.requests) == 40)
    owner.requests[0].approve()
    assert [request.result(20) for request in pending] == [1] * 40
    assert [entry.request for entry in owner.audit.filter(kind="request")] == list(range(40))
    assert [entry.request for entry in owner.audit.filter(kind="release")] == list(range(40))
    assert verify(private_audit_log).intact


def test_an_aborted_pairing_is_put_down_too(private_audit_log: Path) -> None:
    with duetlink.launch():
        pass
    found = [entry for entry, _ in entries(private_audit_log)]
    assert [entry.kind for entry in found] == ["opened", "closed"]
    assert found[1].reason == "this side closed the duet; launch or join a new one"


# -- nothing leaves without --------------------------------------------------------------------------------


def test_where_the_log_cannot_be_written_nothing_leaves(
    duets: Pair, private_audit_log: Path, caplog: pytest.LogCaptureFixture
) -> None:
    owner, scientist = duets
    owner.share(np.zeros(100_000), "x")
    owner.share(np.zeros(3), "small")
    pending = [pointer(scientist, name).request() for name in ("x", "small")]
    until(lambda: [request.state for request in pending] == ["pending", "pending"])
    with caplog.at_level(logging.ERROR, "duetlink"):
        break_log(private_audit_log)
        for request in owner.requests:
            with pytest.raises(errors.AuditUnavailable, match="DUETLINK_AUDIT_PATH"):
                request.approve()
            assert (request.state, request.by, request.answered) == ("pending", "", None)
    assert len(caplog.messages) == 1
    with pytest.raises(errors.AuditUnavailable):
        owner.send([1, 2], "gift")
    with pytest.raises(errors.AuditUnavailable):
        owner.share(2, "more")
    with pytest.raises(
        errors.RequestDenied, match="audit log cannot be written, and nothing leaves"
    ) as denied:
        scientist.store["x"].get(timeout_s=10, reason="another")
    assert "ask again later" in denied.value.reason
    assert owner.requests[2].state == "denied"
    assert "gift" not in scientist.store
    assert "more" not in scientist.store
    assert scientist.statistics().received_bytes == 0
    assert [request.state for request in pending] == ["pending", "pending"]
    assert "cannot be read" in repr(owner.audit)

    mend_log(private_audit_log)
    for request in owner.requests.pending:
        request.approve()
    assert len(pending[0].result(10)) == 100_000
    assert len(pending[1].result(10)) == 3
    assert "cannot be written" not in repr(owner.audit)
    assert verify(private_audit_log).intact


def test_a_standing_grant_lets_nothing_out_without_the_log(duets: Pair, private_audit_log: Path) -> None:
    owner, scientist = duets
    owner.share(1, "x")
    answering(owner, lambda request: request.approve())
    pointer(scientist, "x").get()
    break_log(private_audit_log)
    with pytest.raises(errors.RequestDenied, match="audit log cannot be written"):
        pointer(scientist, "x").get()
    assert owner.requests[0].times == 1
    mend_log(private_audit_log)
    assert pointer(scientist, "x").get() == 1
    assert owner.requests[0].times == 2


def test_a_duet_does_not_open_where_no_log_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DUETLINK_AUDIT_PATH", str(tmp_path / "file" / "audit.jsonl"))
    with pytest.raises(errors.AuditUnavailable, match="choose another file with audit_path"):
        duetlink.launch()


def test_a_denial_goes_out_without_the_log(duets: Pair, private_audit_log: Path) -> None:
    owner, scientist = duets
    owner.share(1, "x")
    pending = pointer(scientist, "x").request()
    until(lambda: pending.state == "pending")
    request = owner.wait_request(10)
    break_log(private_audit_log)
    request.deny("no")
    with pytest.raises(errors.RequestDenied, match="no"):
        pending.result(10)


@pytest.mark.parametrize("size", [10, 100_000])
@pytest.mark.parametrize("by_policy", [False, True])
def test_what_is_taken_back_while_its_answer_is_put_down_does_not_leave(
    duets: Pair, by_policy: bool, size: int
) -> None:
    owner, scientist = duets
    owner.share(np.zeros(size), "x")
    found, recorder = pointer(scientist, "x"), life_of(owner).recorder
    record = recorder.record

    async def slow(*put_down: Entry, sync: bool = True) -> None:
        await record(*put_down, sync=sync)
        if any(entry.kind == "release" for entry in put_down):
            life_of(owner).catalogue.unshare(life_of(owner).catalogue.mine["x"].info)

    recorder.record = slow  # type: ignore[method-assign]
    if by_policy:
        owner.policies.add(duetlink.Policy("approve", name="all", count=1))
        with pytest.raises(errors.RequestDenied, match="is not shared"):
            found.get(timeout_s=10)
        assert life_of(owner).inbox.policies.usage["all"].count == 0
    else:
        pending = found.request()
        with pytest.raises(errors.AssetNotFound):
            owner.wait_request(10).approve()
        with pytest.raises(errors.RequestDenied, match="is not shared"):
            pending.result(10)
    assert owner.requests[0].state == "denied"
    assert scientist.statistics().received_bytes == 0
    until(lambda: any(entry.left_bytes == 0 for entry in owner.audit.filter(kind="release")))
    (begun, ended) = owner.audit.filter(kind="release")
    assert begun.state == ("complete" if size < 1000 else "begun")
    assert ended.state in ("cancelled", "failed")


# -- switched off ------------------------------------------------------------------------------------------


def test_the_log_can_be_switched_off_and_that_shows(make_duets: Any, private_audit_log: Path) -> None:
    owner, scientist = make_duets(audit_path="")
    owner.share(1, "x")
    answering(owner, lambda request: request.approve())
    assert pointer(scientist, "x").get() == 1
    assert "switched off" in repr(owner.audit)
    assert "audit log" in repr(owner)
    assert "switched off: nothing is recorded" in repr(owner)
    with pytest.raises(errors.AuditUnavailable, match="no audit log is kept"):
        owner.audit.verify()
    assert not private_audit_log.parent.exists()


@pytest.mark.parametrize(
    ("variables", "file"),
    [
        ({"DUETLINK_AUDIT_PATH": ""}, None),
        ({"DUETLINK_AUDIT_PATH": "/var/log/duet.jsonl"}, "/var/log/duet.jsonl"),
        ({"DUETLINK_AUDIT_PATH": "~/duet.jsonl"}, str(Path("~/duet.jsonl").expanduser())),
    ],
)
def test_which_file_the_variable_names(variables: dict[str, str], file: str | None) -> None:
    found = duetlink.Settings.from_environment(variables).audit_file
    assert found == (Path(file) if file else None)


def test_without_a_setting_it_is_among_the_users_data(private_audit_log: Path) -> None:
    assert duetlink.Settings.from_environment({}).audit_file == private_audit_log


# -- reading -----------------------------------------------------------------------------------------------


def test_entries_are_filtered(duets: Pair) -> None:
    owner, scientist = duets
    until(lambda: len(owner.audit.filter(session="all")) == 4)
    before = datetime.datetime.now(datetime.UTC)
    owner.share(1, "loss 1")
    owner.share(2, "loss 2")
    owner.share(3, "other [1]")
    audit = owner.audit
    assert len(audit) == 5
    assert [entry.name for entry in audit.filter(kind="share")] == ["loss 1", "loss 2", "other [1]"]
    assert [entry.name for entry in audit.filter(name="loss*")] == ["loss 1", "loss 2"]
    assert [entry.name for entry in audit.filter(name="other [1]")] == ["other [1]"]
    assert [entry.kind for entry in audit.filter(kind=("opened", "connected"))] == ["opened", "connected"]
    assert len(audit.filter(peer="Sv*")) == 4
    assert len(audit.filter(since=before)) == 3
    assert len(audit.filter(until=before)) == 2
    assert len(audit.filter(session="all")) == 7
    assert len(audit.filter(session=life_of(scientist).recorder.session)) == 2
    with pytest.raises(errors.SettingError, match="time zone"):
        audit.filter(since=datetime.datetime(2026, 1, 1))


def test_entries_are_exported(duets: Pair, tmp_path: Path) -> None:
    owner, _ = duets
    owner.share(1, "=1+1")
    until(lambda: len(owner.audit.filter(session="all")) == 5)
    assert owner.audit.filter(session="all").export(tmp_path / "log.jsonl") == 5
    assert [json.loads(line)["number"] for line in (tmp_path / "log.jsonl").read_text().splitlines()] == [
        0,
        1,
        2,
        3,
        4,
    ]
    assert owner.audit.filter(kind="share").export(tmp_path / "log.csv") == 1
    with (tmp_path / "log.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["kind"], row["name"], row["revision"]) == ("share", "'=1+1", "1")
    with pytest.raises(errors.SettingError, match="is there already"):
        owner.audit.export(tmp_path / "log.csv")
    with pytest.raises(errors.SettingError, match=r"\.jsonl or \.csv"):
        owner.audit.export(tmp_path / "log.txt")


def test_a_changed_log_is_an_error_that_says_where(duets: Pair, private_audit_log: Path) -> None:
    owner, _ = duets
    until(lambda: len(owner.audit.filter(session="all")) == 4)
    owner.share(1, "x")
    assert "5 entries, none changed, none missing" in str(owner.audit.verify())
    private_audit_log.write_bytes(private_audit_log.read_bytes().replace(b'"x"', b'"y"'))
    with pytest.raises(errors.AuditBroken, match="line 5: changed"):
        owner.audit.verify()
    assert kinds(owner)[-1] == "unreadable"
    assert "unreadable" in repr(owner.audit)


def test_the_table_shows_the_latest_entries(duets: Pair) -> None:
    owner, _ = duets
    for number in range(60):
        owner.share(number, f"object {number}")
    assert "the latest 50 of 62 entries" in repr(owner.audit)
    assert "object 59" in repr(owner.audit)
    assert "object 9 " not in repr(owner.audit)


def test_threads_end_with_their_duets() -> None:
    with duetlink.launch() as owner:
        owner.share(1, "x")
        assert any(thread.name == "duetlink-audit" for thread in threading.enumerate())
    until(lambda: not any(thread.name == "duetlink-audit" for thread in threading.enumerate()))


def test_what_has_happened_is_there_when_the_log_is_looked_at(duets: Pair, monkeypatch: Any) -> None:
    """However slow the disk is."""
    owner, scientist = duets
    append = AuditLog.append

    def slowly(self: AuditLog, entries: Any, *, sync: bool = True) -> int:
        threading.Event().wait(0.2)
        return append(self, entries, sync=sync)

    monkeypatch.setattr(AuditLog, "append", slowly)
    owner.share(1, "x")
    pending = scientist.wait_object("x", 10).request("why")
    owner.wait_request(10)
    pending.withdraw()
    while owner.requests[0].state == "pending":
        threading.Event().wait(0.005)
    assert [entry.request for entry in owner.audit.filter(kind="withdrawn")] == [0]
    owner.close()
    assert kinds(owner)[-1] == "closed"


def test_a_run_that_is_withdrawn_while_its_beginning_is_written_has_an_end(
    duets: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, scientist = duets
    owner.share(np.arange(3.0), "x", mock="auto")
    append = AuditLog.append
    is_writing, goes_on = threading.Event(), threading.Event()

    def held(self: AuditLog, entries: Any, *, sync: bool = True) -> int:
        if any(entry.kind == "run" for entry in entries):
            is_writing.set()
            assert goes_on.wait(100)
        return append(self, entries, sync=sync)

    monkeypatch.setattr(AuditLog, "append", held)
    pending = (pointer(scientist, "x") + 1).request("why")
    assert is_writing.wait(100)
    pending.withdraw()
    until(lambda: owner.requests[0].state == "withdrawn")
    goes_on.set()
    until(lambda: len(owner.audit.filter(kind="run")) == 2)
    assert [entry.state for entry in owner.audit.filter(kind="run")] == ["begun", "killed"]


# -- the file moves ----------------------------------------------------------------------------------------


def test_a_log_that_is_moved_away_while_a_duet_runs_goes_on(private_audit_log: Path) -> None:
    AuditLog(private_audit_log).append([Entry(kind="share", session="earlier")] * 20)
    with duetlink.launch() as duet:
        moved = private_audit_log.with_name("audit.jsonl.1")
        private_audit_log.rename(moved)
        private_audit_log.touch()
        names = [f"object {number}" for number in range(60)]  # longer than the old file was, by far
        for name in names:
            duet.share(1, name)
        assert kinds(duet) == ["recovered", *["share"] * 60]
        assert [entry.name for entry in duet.audit.filter(kind="share")] == names
        assert "up to 20" in next(iter(duet.audit)).reason
        with pytest.raises(errors.AuditBroken, match="entries 0 to 20 before it, in a file that was moved"):
            duet.audit.verify()
        assert "82 entries, none changed, none missing" in str(duet.audit.verify(moved))


def test_a_pointer_says_so_where_work_on_it_cannot_be_put_down(duets: Pair, private_audit_log: Path) -> None:
    owner, scientist = duets
    owner.share(np.arange(3.0), "x", mock="auto")
    found = pointer(scientist, "x")
    assert found.mock_words
    break_log(private_audit_log)
    result = found + 1
    with pytest.raises(errors.RequestDenied, match="the audit log cannot be written, and nothing leaves"):
        result.get(timeout_s=100)
    # waits for what is still being written: the line of the run, which cannot be written either
    assert "cannot be" in repr(owner.audit)
    mend_log(private_audit_log)
    assert len(owner.audit.filter(kind="run")) == 0  # it was not run
    answering(owner, lambda request: request.approve())
    assert (scientist.store["x"] + 1).get(timeout_s=100).tolist() == [1.0, 2.0, 3.0]
