"""`launch(resume=…)`: what comes back after a kernel has ended, however it has ended, and what does not."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import duetlink
from duetlink import Policy, errors
from duetlink.duet.answering.incoming import Incoming
from duetlink.duet.answering.queue import HISTORY
from duetlink.duet.duet import Duet
from duetlink.duet.objects.asset import AssetInfo
from duetlink.duet.state import records
from duetlink.duet.state.directory import StateDirectory
from duetlink.duet.state.file import StateFile
from duetlink.duet.state.request_record import request_to_json
from duetlink.duet.store import Asset, AwaitedAsset
from duetlink.testing.faults import life_of
from tests.duet.conftest import Join, Launch
from tests.duet.test_duet import answering, pointer, until


def kept(states: Path, name: str = "clinic") -> Mapping[records.Key, str]:
    """What is on the disk now."""
    file = StateFile.open(states / name / "state.sqlite", read_only=True)
    try:
        return file.read()
    finally:
        file.close()


@contextlib.contextmanager
def full_disk(owner: Duet) -> Iterator[None]:
    """Nothing can be kept."""

    def fail(file: StateFile, changes: object, *, sync: bool) -> None:
        raise errors.StateUnavailable("no space left")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StateFile, "write", fail)
        yield


# -- a kernel is killed ------------------------------------------------------------------------------------

KERNEL = """
import json, sys
import numpy as np
import duetlink
from duetlink import Policy
owner = duetlink.launch(name="Olga", resume="clinic")
scientist = duetlink.join(owner.code, name="Sven")
owner.wait_connected(20)
owner.share(np.arange(5.0), "x", description="five numbers", tags=["raw", "tiny"])
owner.share([1, 2], "y")
owner.share(2.5, "loss", tags=["loss"])
owner.policies.add(Policy("deny", name="secrets", assets="secret*", reason="never"))
owner.policies.add(Policy("approve", name="losses", tags="loss", count=3, total_bytes=10_000, rate=(5, 3600)))
owner.policies.move("losses", 0)
scientist.wait_object("loss", 20)
for _ in range(2):
    assert scientist.store["loss"].get(timeout_s=20) == 2.5
pending = scientist.store["x"].request("to plot")
owner.wait_request(20)
answered = scientist.store["y"].request("to add")
while len(owner.requests.pending) < 2:
    pass
owner.requests[2].approve()
said = {"requests": repr(owner.requests), "policies": repr(owner.policies)}
print(json.dumps(said), flush=True)
sys.stdin.read()
"""


def test_all_of_it_comes_back_when_the_kernel_was_killed(
    launch: Launch, join: Join, states: Path, private_audit_log: Path
) -> None:
    pipe = subprocess.PIPE
    kernel = subprocess.Popen([sys.executable, "-c", KERNEL], stdin=pipe, stdout=pipe, text=True)
    assert kernel.stdout is not None
    assert kernel.stdin is not None
    try:
        said = json.loads(next(line for line in kernel.stdout if line.startswith("{")))
        with pytest.raises(errors.StateInUse, match=f"process {kernel.pid}"):
            launch()
    finally:
        os.kill(kernel.pid, signal.SIGKILL)
        kernel.wait(10)
        kernel.stdout.close()
        kernel.stdin.close()
    owner = launch()
    assert repr(owner.requests) == said["requests"]
    assert repr(owner.policies) == said["policies"]
    assert owner.policies.usage("losses") == "2 times, 2 elements"
    assert [(request.number, request.state, request.by, request.reason) for request in owner.requests] == [
        (0, "approved", "policy losses", ""),
        (1, "pending", "", "to plot"),
        (2, "approved", "person", "to add"),
    ]
    awaited = owner.store["x"]
    assert isinstance(awaited, AwaitedAsset)
    assert (awaited.revision, awaited.detail, awaited.description) == (1, "float64 (5,)", "five numbers")
    assert "awaiting content" in repr(owner.store)

    scientist = join(owner)
    assert list(scientist.store) == []  # it hears of them when they are shared again
    for obj, name, tags in (([1, 2], "y", ()), (2.5, "loss", ("loss",)), (np.arange(5.0), "x", ("raw",))):
        assert owner.share(obj, name, tags=tags).revision == 1
    assert pointer(scientist, "y").get(timeout_s=10) == [1, 2]  # granted
    owner.requests[1].approve()
    assert list(pointer(scientist, "x").get(reason="to plot", timeout_s=10)) == [0, 1, 2, 3, 4]
    assert pointer(scientist, "loss").get(timeout_s=10) == 2.5
    with pytest.raises(errors.RequestTimeout):  # its three times are up
        pointer(scientist, "loss").get(timeout_s=0.2)
    assert [request.number for request in owner.requests] == [0, 1, 2, 3, 4]
    assert owner.policies.usage("losses") == "3 times, 3 elements"


RELEASES = """
import duetlink
from duetlink import Policy
owner = duetlink.launch(name="Olga", resume="clinic")
scientist = duetlink.join(owner.code, name="Sven")
owner.wait_connected(20)
owner.share(1, "x")
owner.policies.add(Policy("approve", name="all", count=1000))
scientist.wait_object("x", 20)
for number in range(1000):
    assert scientist.store["x"].get(timeout_s=20) == 1
    print("#", number + 1, flush=True)
"""


def test_a_quota_is_never_larger_after_a_kernel_was_killed(states: Path, private_audit_log: Path) -> None:
    kernel = subprocess.Popen([sys.executable, "-c", RELEASES], stdout=subprocess.PIPE, text=True)
    assert kernel.stdout is not None
    said: list[str] = []
    for line in kernel.stdout:
        if line.startswith("#"):
            said.append(line)
        if len(said) == 7:
            break
    os.kill(kernel.pid, signal.SIGKILL)
    said += [line for line in kernel.stdout if line.endswith("\n")]
    kernel.stdout.close()
    kernel.wait(10)
    usage = json.loads(kept(states)[records.key("policy", "all")])["usage"]
    assert int(said[-1].split()[1]) <= usage["count"] <= int(said[-1].split()[1]) + 1


# -- what was shared ---------------------------------------------------------------------------------------


def test_the_same_content_goes_on_and_the_request_for_it_can_be_approved(launch: Launch, join: Join) -> None:
    owner = launch()
    owner.share("old", "x")
    owner.share(np.arange(3), "x", tags=["a"])
    scientist = join(owner)
    pointer(scientist, "x").request("please")
    owner.wait_request(10)

    owner = launch()
    (request,) = owner.requests
    with pytest.raises(errors.AssetNotFound, match="share the object again"):
        request.approve()
    with pytest.raises(errors.AssetNotFound, match="share the object again"):
        request.preview()
    assert owner.share(np.arange(3), "x", tags=["b"], description="now with words").revision == 2
    assert "array([0, 1, 2])" in request.preview() or "0 1 2" in request.preview()
    assert request.asset.tags == ("b",)
    request.approve()  # nobody is there
    assert (request.state, request.by) == ("approved", "person")
    scientist = join(owner)
    assert pointer(scientist, "x").revision == 2
    assert list(pointer(scientist, "x").get(reason="again", timeout_s=10)) == [0, 1, 2]
    assert (len(owner.requests), owner.requests[0].times) == (1, 2)
    entries = list(owner.audit.filter(kind=("answer", "request", "release")))
    assert [(entry.kind, entry.state, entry.peer) for entry in entries] == [
        ("answer", "approved", "Sven"),
        ("request", "", "Sven"),
        ("answer", "approved", "Sven"),
        ("release", "complete", "Sven"),
    ]
    assert owner.share(np.arange(3), "x").revision == 3  # as ever


def test_other_content_is_the_next_revision_and_denies_what_waits(launch: Launch, join: Join) -> None:
    owner = launch()
    owner.share(np.arange(3), "x")
    owner.share(1, "y")
    scientist = join(owner)
    pointer(scientist, "x").request()
    owner.wait_request(10)
    pointer(scientist, "y").request()
    until(lambda: len(owner.requests) == 2)
    owner.requests[1].approve()

    owner = launch()
    assert owner.share(np.arange(4), "x").revision == 2
    request = owner.requests[0]
    assert (request.state, request.by) == ("denied", "person")
    assert "shared again with another content" in request.answer_reason
    assert owner.share(2, "y").revision == 2
    scientist = join(owner)
    with pytest.raises(errors.RequestTimeout):  # the grant was for the other one
        pointer(scientist, "y").get(timeout_s=0.2)
    owner = launch()
    assert owner.share(np.arange(4), "x").revision == 2
    assert owner.share(1, "y").revision == 3


def test_what_is_unshared_before_or_after_stays_so_and_ends_its_grants(launch: Launch, join: Join) -> None:
    owner = launch()
    gone = owner.share(1, "gone")
    owner.share(2, "left")
    scientist = join(owner)
    for name in ("gone", "left"):
        answering(owner, lambda request: request.approve())
        pointer(scientist, name).get(timeout_s=10)
    gone.unshare()

    owner = launch()
    assert list(owner.store) == ["left"]
    assert owner.share(1, "gone").revision == 2
    left = owner.store["left"]
    assert isinstance(left, AwaitedAsset)
    left.unshare()
    assert list(owner.store) == ["gone"]
    owner = launch()
    assert owner.share(2, "left").revision == 2
    assert isinstance(owner.store["left"], Asset)
    scientist = join(owner)
    with pytest.raises(errors.RequestTimeout):
        pointer(scientist, "left").get(timeout_s=0.2)


def test_no_content_and_no_mock_is_kept(launch: Launch, join: Join, states: Path) -> None:
    owner = launch()
    owner.share(["sesame content"], "x", mock=["sesame mock"])
    scientist = join(owner)
    pointer(scientist, "x").request("why")
    owner.wait_request(10)
    content = b"".join(path.read_bytes() for path in (states / "clinic").iterdir())
    assert b"given by its owner" in content
    assert b"sesame" not in content


# -- who is granted what -----------------------------------------------------------------------------------


def test_a_grant_holds_for_the_name_that_it_was_given_to_and_no_other(launch: Launch, join: Join) -> None:
    owner = launch()
    owner.share(1, "x")
    scientist = join(owner)
    answering(owner, lambda request: request.approve())
    pointer(scientist, "x").get(timeout_s=10)

    owner = launch()
    owner.share(1, "x")
    stranger = join(owner, "Mallory")
    with pytest.raises(errors.RequestTimeout):
        pointer(stranger, "x").get(timeout_s=0.2)
    assert [request.peer for request in owner.requests] == ["Sven", "Mallory"]
    until(lambda: owner.requests[1].state == "withdrawn")
    owner = launch()
    owner.share(1, "x")
    assert pointer(join(owner), "x").get(timeout_s=10) == 1


def test_grants_that_are_not_to_be_restored_are_asked_for_anew(launch: Launch, join: Join) -> None:
    owner = launch()
    owner.share(1, "x")
    scientist = join(owner)
    answering(owner, lambda request: request.approve())
    pointer(scientist, "x").get(timeout_s=10)

    owner = launch(resume_grants=False)
    owner.share(1, "x")
    scientist = join(owner)
    with pytest.raises(errors.RequestTimeout):
        pointer(scientist, "x").get(timeout_s=0.2)


def test_an_answer_to_one_peers_request_is_none_to_anothers(launch: Launch, join: Join) -> None:
    owner = launch()
    owner.share(1, "x")
    scientist = join(owner)
    pointer(scientist, "x").request("please")
    owner.wait_request(10)

    owner = launch()
    owner.share(1, "x")
    stranger = join(owner, "Mallory")
    asked = pointer(stranger, "x").request("please")
    until(lambda: len(owner.requests) == 2)
    owner.requests[0].approve()
    assert (owner.requests[0].state, owner.requests[1].state) == ("approved", "pending")
    owner.requests[1].deny("who are you?")
    with pytest.raises(errors.RequestDenied, match="who are you"):
        asked.result(10)
    entries = owner.audit.filter(kind="answer")
    assert [(entry.peer, entry.state) for entry in entries] == [("Sven", "approved"), ("Mallory", "denied")]
    assert stranger.statistics().received_bytes == 0


# -- requests ----------------------------------------------------------------------------------------------


def test_a_request_asked_again_is_the_same_request(launch: Launch, join: Join) -> None:
    owner = launch()
    owner.share(1, "x")
    scientist = join(owner)
    pointer(scientist, "x").request("please")
    owner.wait_request(10)
    owner = launch()
    owner.share(1, "x")
    scientist = join(owner)
    asked = pointer(scientist, "x").request("please")
    until(lambda: owner.requests[0].times == 2)
    assert len(owner.requests) == 1
    owner.requests[0].deny("no")
    with pytest.raises(errors.RequestDenied, match="no"):
        asked.result(10)
    assert launch().requests[0].answer_reason == "no"


def test_policies_answer_only_whoever_asks(launch: Launch, join: Join) -> None:
    owner = launch()
    owner.share(1, "x")
    scientist = join(owner)
    pointer(scientist, "x").request("please")
    owner.wait_request(10)
    owner = launch()
    owner.share(1, "x")
    owner.policies.add(Policy("approve", name="all", count=1))
    assert (owner.requests[0].state, owner.policies.usage("all")) == ("pending", "")
    scientist = join(owner)
    assert pointer(scientist, "x").get(reason="please", timeout_s=10) == 1
    assert [(request.number, request.state, request.by) for request in owner.requests] == [
        (0, "approved", "policy all")
    ]
    assert owner.policies.usage("all") == "1 time, 1 element"


def test_a_request_that_expires_while_nobody_is_there_has_expired(launch: Launch, join: Join) -> None:
    owner = launch()
    owner.share(1, "x")
    owner.share(2, "y")
    scientist = join(owner)
    pointer(scientist, "x").request(expires_s=0.2)
    pointer(scientist, "y").request(expires_s=600)
    until(lambda: len(owner.requests) == 2)
    owner.close()
    now = dt.datetime.now(dt.UTC)
    owner = launch()
    until(lambda: dt.datetime.now(dt.UTC) > now + dt.timedelta(seconds=0.2))
    until(lambda: {request.state for request in owner.requests} == {"expired", "pending"})


def test_answered_requests_are_kept_up_to_a_number_and_found_by_theirs(launch: Launch, states: Path) -> None:
    owner = launch()
    owner.close()
    file = StateFile.open(states / "clinic" / "state.sqlite")
    noon = dt.datetime(2026, 3, 1, 12, 0, tzinfo=dt.UTC)
    request = request_to_json(Incoming(0, AssetInfo("x", 1, "int", "", 8), None, "Sven", "", noon, None))
    changes: dict[records.Key, str | None] = {
        records.key("request", number): records.dump(
            request | {"number": number, "state": "pending" if number == 2 else "denied"}
        )
        for number in range(HISTORY + 20)
    }
    file.write(changes, sync=True)
    file.close()
    owner = launch()
    requests = owner.requests
    assert len(requests) == HISTORY + 1
    assert (requests[2].number, requests[500].number, requests[-1].number) == (2, 500, HISTORY + 19)
    assert [request.number for request in requests.pending] == [2]
    assert next(reversed(requests)).number == HISTORY + 19
    for number in (0, 19, HISTORY + 20):
        with pytest.raises(IndexError, match=f"no request {number}"):
            requests[number]
    assert len([key for key in kept(states) if key[0] == "request"]) == HISTORY + 1


def test_forgotten_requests_do_not_come_back_and_a_grant_does(
    launch: Launch, join: Join, states: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duetlink.duet.answering.queue.HISTORY", 5)
    owner = launch()
    scientist = join(owner)
    owner.policies.add(Policy("deny", assets=("denied",)))
    owner.share(1, "granted")
    owner.share(2, "denied")
    answering(owner, lambda request: request.approve())
    assert pointer(scientist, "granted").get(timeout_s=10) == 1
    for _ in range(12):
        with pytest.raises(errors.RequestDenied):
            pointer(scientist, "denied").get(timeout_s=10)
    assert [request.number for request in owner.requests] == [0, 8, 9, 10, 11, 12]
    owner = launch(resume="clinic")
    assert [request.number for request in owner.requests] == [0, 8, 9, 10, 11, 12]
    owner.share(1, "granted")
    scientist = join(owner)
    assert pointer(scientist, "granted").get(timeout_s=10) == 1
    assert owner.requests[0].times == 2
    owner.share(3, "granted")
    owner.share(2, "denied")
    for _ in range(6):
        with pytest.raises(errors.RequestDenied):
            pointer(scientist, "denied").get(timeout_s=10)
    assert owner.requests[-1].number == 18
    owner.close()
    assert sorted(key[1] for key in kept(states) if key[0] == "request") == [f"[{n}]" for n in range(14, 19)]


# -- policies ----------------------------------------------------------------------------------------------


def test_policies_come_back_in_their_order_and_a_cell_run_again_adds_nothing(launch: Launch) -> None:
    until_then = dt.datetime(2100, 1, 1, tzinfo=dt.UTC)
    policies = [
        Policy("deny", name="b", peers="M*", reason="no"),
        Policy("approve", name="a", hours=("22:00", "06:00"), until=until_then, rate=(3, 60), max_elements=5),
        Policy("ask"),
    ]
    owner = launch()
    for policy in policies:
        owner.policies.add(policy)
    owner.policies.move("a", 0)
    owner.policies.add(Policy("ask", name="gone"))
    owner.policies.remove("gone")
    shown = list(owner.policies)
    owner = launch()
    assert list(owner.policies) == shown
    assert [policy.name for policy in owner.policies] == ["a", "b", "1"]
    for policy in policies:
        owner.policies.add(policy)
    assert list(owner.policies) == shown
    owner.policies.clear()
    assert list(launch().policies) == []


def test_a_quota_is_charged_on_the_disk_before_anything_leaves(
    launch: Launch, join: Join, states: Path
) -> None:
    owner = launch()
    owner.policies.add(Policy("approve", name="all", count=5))
    owner.share(1, "x")
    scientist = join(owner)
    seen = []
    let_out = life_of(owner).recorder.let_out

    async def look(*entries: Any, **fields: Any) -> None:
        seen.append(json.loads(kept(states)[records.key("policy", "all")])["usage"]["count"])
        await let_out(*entries, **fields)

    life_of(owner).recorder.let_out = look  # type: ignore[method-assign]
    for _ in range(2):
        assert pointer(scientist, "x").get(timeout_s=10) == 1
    assert seen == [1, 2]


def test_where_nothing_can_be_kept_a_policy_lets_nothing_out(launch: Launch, join: Join) -> None:
    owner = launch()
    owner.policies.add(Policy("approve", name="all", count=5))
    owner.share(1, "x")
    scientist = join(owner)
    found = pointer(scientist, "x")
    with full_disk(owner):
        with pytest.raises(errors.RequestDenied, match="ask again later"):
            found.get(timeout_s=10)
        with pytest.raises(errors.StateUnavailable):
            owner.policies.add(Policy("approve", name="more"))
        assert [policy.name for policy in owner.policies] == ["all"]
        assert "cannot be written" in repr(owner)
    assert scientist.statistics().received_bytes == 0
    assert owner.policies.usage("all") == ""
    assert found.get(timeout_s=10) == 1
    owner = launch()
    assert [policy.name for policy in owner.policies] == ["all"]
    assert owner.policies.usage("all") == "1 time, 1 element"


def test_where_nothing_can_be_kept_a_persons_yes_is_none_yet(launch: Launch, join: Join) -> None:
    owner = launch()
    owner.share(1, "x")
    scientist = join(owner)
    asked = pointer(scientist, "x").request()
    request = owner.wait_request(10)
    with full_disk(owner), pytest.raises(errors.StateUnavailable):
        request.approve()
    assert request.state == "pending"
    request.approve()
    assert asked.result(10) == 1


# -- the state itself --------------------------------------------------------------------------------------


def test_one_kernel_at_a_time(launch: Launch, states: Path) -> None:
    owner = launch()
    with pytest.raises(errors.StateInUse, match=f"this process, {os.getpid()}"):
        duetlink.launch(resume="clinic")
    assert "clinic" in repr(owner)
    owner.close()
    launch()


def test_a_launch_that_fails_leaves_it_to_the_next(launch: Launch) -> None:
    with pytest.raises(errors.SignalingUnavailable):
        duetlink.launch(signaling="ws://127.0.0.1:9", resume="clinic")
    launch()


def test_without_resume_nothing_is_kept(launch: Launch, states: Path) -> None:
    owner = launch(None)
    owner.share(1, "x")
    owner.close()
    owner = launch(False)
    assert not states.exists()
    launch(True)
    assert [path.name for path in states.iterdir()] == ["default"]


def test_a_name_that_is_none_begins_nothing(launch: Launch, states: Path) -> None:
    with pytest.raises(errors.SettingError, match="1 to 64 letters"):
        launch("../clinic")
    assert not states.exists()


def test_what_is_damaged_is_not_begun_anew(launch: Launch, states: Path) -> None:
    owner = launch()
    owner.share(1, "x")
    owner.close()
    file = states / "clinic" / "state.sqlite"
    content = file.read_bytes()
    file.write_bytes(content[:-100])
    with pytest.raises(errors.StateBroken, match="duetlink state forget clinic"):
        launch()
    assert file.read_bytes() == content[:-100]
    assert not StateDirectory(states, "clinic").is_held()
    file.write_bytes(content)
    launch()


def test_records_that_make_no_sense_are_damage(launch: Launch, states: Path) -> None:
    launch().close()
    file = StateFile.open(states / "clinic" / "state.sqlite")
    record = '{"policy":{"action":"approve","from":"above"},"usage":{}}'
    file.write({records.key("policy", "a"): record}, sync=True)
    file.close()
    with pytest.raises(
        errors.StateBroken, match=r'policy \["a"\] cannot be read: it has unknown fields: from'
    ):
        launch()


def test_its_ledger_lies_with_it_unless_another_file_is_named(launch: Launch, states: Path) -> None:
    assert life_of(launch()).ledger.path == states / "clinic" / "privacy.jsonl"
    elsewhere = launch(budget_path=str(states / "mine.jsonl"))
    assert life_of(elsewhere).ledger.path == states / "mine.jsonl"
    assert life_of(launch(None)).ledger.path.name == "privacy.jsonl"
