"""kill -9 of an owner, a zygote, a room or a scientist, in every state of a request.

No request that waits is lost where `resume` is on, nothing is answered twice, and no process is left.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.system.conftest import Kernel, MakeKernel
from tests.system.descendants import Running, descendants, left_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif("sys.platform != 'linux'", reason="rooms are forked under Linux alone"),
]

HANG_S = 120  # what a busy machine takes is far less
MOCK = "np.ones(3)"
SMALL = "np.arange(10.0)"
LONG = "np.ones(1_000_000)"  # to convolve it with itself takes minutes
LARGE = "np.ones(30_000_000)"


def until(condition: Callable[[], object], what: str) -> None:
    deadline_s = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < deadline_s, what
        threading.Event().wait(0.02)


class Clinic:
    """One state and one log of an owner's, whose kernels and scientists come and go."""

    def __init__(self, directory: Path, make: MakeKernel) -> None:
        self._make = make
        self.log = directory / "audit.jsonl"
        self.states = directory / "states"
        patient = "heartbeat_interval_s=0.5, heartbeat_timeout_s=30, reconnect_timeout_s=10"
        self._scientists = f"duetlink.Settings({patient})"
        self._owners = (
            f"duetlink.Settings({patient}, audit_path={str(self.log)!r}, state_path={str(self.states)!r})"
        )

    def owner(self, shared: str = "") -> Kernel:
        kernel = self._make()
        launch = f"duet = duetlink.launch(name='Olga', resume='clinic', settings={self._owners})"
        assert kernel.run(launch) == "ok None"
        if shared:
            self.share(kernel, shared)
        return kernel

    def share(self, owner: Kernel, shared: str) -> None:
        assert owner.run(f"duet.share({shared}, 'x', mock={MOCK})").startswith("ok ")

    def scientist(self, owner: Kernel) -> Kernel:
        kernel = self._make()
        code = owner.value("str(duet.code)")
        assert (
            kernel.run(f"duet = duetlink.join({code}, name='Sven', settings={self._scientists})") == "ok None"
        )
        assert kernel.run("x = duet.wait_object('x', 60)") == "ok None"
        return kernel

    def both(self, shared: str) -> tuple[Kernel, Kernel]:
        owner = self.owner(shared)
        return owner, self.scientist(owner)

    def entries(self, *kinds: str) -> list[tuple[str, str]]:
        """Kind and state of what the log has of these kinds."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [(line["kind"], line.get("state", "")) for line in lines if line["kind"] in kinds]


@pytest.fixture
def clinic(tmp_path: Path, make_kernel: MakeKernel) -> Clinic:
    return Clinic(tmp_path, make_kernel)


def states(owner: Kernel) -> list[str]:
    return list(json.loads(owner.value("[request.state for request in duet.requests]").replace("'", '"')))


def until_made(owner: Kernel, number: int, text: str) -> None:
    """Wait until what a request is for is there to be looked at, with this text in it."""
    until(lambda: text in owner.run(f"out = duet.requests[{number}].preview()"), "it is not made")


def killed(kernel: Kernel) -> None:
    """SIGKILL; all that it had started ends."""
    started = descendants(kernel.process.pid)
    kernel.process.kill()
    kernel.process.wait(HANG_S)
    until(lambda: not left_of(started), f"processes are left: {left_of(started)}")


def zygote(kernel: Kernel) -> Running:
    found = [one for one in descendants(kernel.process.pid) if one.parent == kernel.process.pid]
    assert len(found) == 1, found
    return found[0]


def busy_room(kernel: Kernel) -> Running:
    """The room that has taken processor time, as one that computes does."""
    found: list[Running] = []

    def look() -> bool:
        rooms = [one for one in descendants(kernel.process.pid) if one.parent != kernel.process.pid]
        found[:] = [one for one in rooms if _cpu_ticks(one.pid) > 50]
        return bool(found)

    until(look, "no room computes")
    assert len(found) == 1, found
    return found[0]


def _cpu_ticks(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


# -- the owner's kernel ------------------------------------------------------------------------------------


def test_an_owner_killed_while_a_request_arrives_has_none(clinic: Clinic) -> None:
    owner, scientist = clinic.both(SMALL)
    # the program has come and is being read when the kernel ends
    owner.run("import duetlink.duet.answering.job_intake as intake, threading, os")
    owner.run("intake._read = lambda body: (os.write(1, b'here it is\\n'), threading.Event().wait())")
    scientist.run("asked = (x + 1).request('why')")
    owner.begin("threading.Event().wait()")
    owner.line("here it is")
    killed(owner)
    assert clinic.entries("request", "answer", "release") == []

    owner = clinic.owner(SMALL)
    assert states(owner) == []
    again = clinic.scientist(owner)
    again.run("asked = (x + 1).request('why')")
    until(lambda: states(owner) == ["pending"], "it has not come")
    owner.run("duet.requests[0].approve()")
    assert again.value("asked.result(60).sum()") == "np.float64(55.0)"


def test_an_owner_killed_while_its_room_runs_has_the_request_again(clinic: Clinic) -> None:
    owner, scientist = clinic.both(LONG)
    scientist.run("asked = np.convolve(x, x).request('why')")
    until(lambda: states(owner) == ["running"], "it does not run")
    busy_room(owner)
    code = owner.value("str(duet.requests[0].code)")
    killed(owner)

    owner = clinic.owner()
    assert states(owner) == ["pending"]
    assert owner.value("str(duet.requests[0].code)") == code
    clinic.share(owner, LONG)
    again = clinic.scientist(owner)
    again.run("asked = np.convolve(x, x).request('why')")
    until(lambda: states(owner) == ["running"], "it is not run again")
    assert owner.value("duet.requests[0].times") == "2"
    owner.run("duet.requests[0].deny('it takes too long')")
    assert "it takes too long" in again.run("asked.result(60)")
    assert clinic.entries("request", "answer", "release") == [
        ("request", ""),
        ("request", ""),
        ("answer", "denied"),
    ]
    killed(owner)


def test_an_owner_killed_while_a_person_is_to_answer_has_it_again(clinic: Clinic) -> None:
    owner, scientist = clinic.both(SMALL)
    scientist.run("asked = (x + 1).request('why')")
    until_made(owner, 0, "array")
    killed(owner)

    owner = clinic.owner(SMALL)
    assert states(owner) == ["pending"]
    again = clinic.scientist(owner)
    again.run("asked = (x + 1).request('why')")
    owner.run("duet.wait_request(60)")
    owner.run("duet.requests[0].approve()")
    assert again.value("asked.result(60).sum()") == "np.float64(55.0)"
    assert states(owner) == ["approved"]
    assert clinic.entries("answer", "release") == [("answer", "approved"), ("release", "complete")]


def test_an_owner_killed_after_a_yes_does_not_answer_twice(clinic: Clinic) -> None:
    owner, scientist = clinic.both(LARGE)
    scientist.run("asked = (x + 1).request('why')")
    owner.run("duet.wait_request(100)")
    scientist.stop()
    owner.begin("duet.requests[0].approve()")
    until(lambda: ("answer", "approved") in clinic.entries("answer"), "it is not answered")
    killed(owner)
    scientist.wake()

    owner = clinic.owner(LARGE)
    assert states(owner) == ["approved"]
    assert scientist.run("asked.result(100)").startswith("error ")
    again = clinic.scientist(owner)
    again.run("asked = (x + 1).request('why')")
    until(lambda: states(owner)[1:] in (["pending"], ["running"]), "it is not asked anew")
    assert [entry for entry in clinic.entries("answer", "release") if entry[1] == "approved"] == [
        ("answer", "approved")
    ]
    owner.run("duet.wait_request(100)")
    owner.run("duet.requests[1].approve()")
    assert again.value("asked.result(100)[0]") == "np.float64(2.0)"


# -- the zygote --------------------------------------------------------------------------------------------


def test_a_zygote_killed_while_nothing_runs_is_begun_anew(clinic: Clinic) -> None:
    owner, scientist = clinic.both(SMALL)
    scientist.run("asked = (x + 1).request()")
    until_made(owner, 0, "array")
    first = zygote(owner)
    started = descendants(owner.process.pid)
    os.kill(first.pid, signal.SIGKILL)
    until(lambda: not left_of(started), "its rooms are left")
    scientist.run("another = (x * 2).request()")
    until_made(owner, 1, "18")
    assert states(owner) == ["pending", "pending"]
    assert zygote(owner).pid != first.pid
    killed(owner)


def test_a_zygote_killed_while_a_room_runs_leaves_the_request_pending(clinic: Clinic) -> None:
    owner, scientist = clinic.both(LONG)
    scientist.run("asked = np.convolve(x, x).request()")
    busy_room(owner)
    started = descendants(owner.process.pid)
    os.kill(zygote(owner).pid, signal.SIGKILL)
    until(lambda: not left_of(started), "a room is left")
    until(lambda: states(owner) == ["pending"], "it still runs")
    assert "was ended by the system or a person" in owner.value("duet.requests[0].failure")
    assert scientist.value("asked.state") == "'pending'"
    owner.begin("duet.requests[0].run()")
    busy_room(owner)
    killed(owner)


def test_a_zygote_killed_while_it_forks_is_done_without(clinic: Clinic) -> None:
    owner, scientist = clinic.both(SMALL)
    scientist.run("asked = (x + 1).request()")
    until_made(owner, 0, "array")
    first = zygote(owner)
    until(lambda: len(descendants(owner.process.pid)) == 2, "no room is ready")
    os.kill(first.pid, signal.SIGSTOP)
    scientist.run("second = (x * 2).request()")
    scientist.run("third = (x * 3).request()")
    until(lambda: len(states(owner)) == 3, "the third has not come")
    os.kill(first.pid, signal.SIGKILL)
    until_made(owner, 2, "27")
    if owner.value("duet.requests[1].failure") != "''":  # its room was the zygote's, and ended with it
        owner.run("duet.requests[1].run()")
    until_made(owner, 1, "18")
    assert states(owner) == ["pending"] * 3
    killed(owner)


# -- a room ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_room_killed_amid_a_program_leaves_it_pending_with_a_failure(clinic: Clinic, number: int) -> None:
    owner, scientist = clinic.both(LONG)
    scientist.run("asked = np.convolve(x, x).request()")
    os.kill(busy_room(owner).pid, number)
    until(lambda: states(owner) == ["pending"], "it still runs")
    words = {signal.SIGKILL: "ended by the system or a person", signal.SIGSEGV: "crashed (SIGSEGV)"}
    assert words[signal.Signals(number)] in owner.value("duet.requests[0].failure")
    assert scientist.value("asked.state") == "'pending'"
    owner.begin("duet.requests[0].run()")
    os.kill(busy_room(owner).pid, signal.SIGKILL)
    assert owner.answer().startswith("error OperationFailed")
    assert clinic.entries("answer", "release") == []
    killed(owner)


def test_a_room_killed_amid_a_function_leaves_it_pending_with_a_failure(clinic: Clinic) -> None:
    owner, scientist = clinic.both(SMALL)
    (Path(scientist.errors.name).parent / "slow.py").write_text(
        "def slow(x):\n    while len(x) > 5:\n        pass\n    return 1.0\n"
    )
    scientist.run(f"import sys; sys.path.insert(0, {str(Path(scientist.errors.name).parent)!r}); import slow")
    scientist.run("asked = duet.remote(slow.slow)(x).submit()")
    owner.run("duet.wait_request(60)")
    for _ in range(2):
        owner.begin("duet.requests[0].run()")
        os.kill(busy_room(owner).pid, signal.SIGKILL)
        assert owner.answer().startswith("error OperationFailed")
        assert states(owner) == ["pending"]
        assert "ended by the system or a person" in owner.value("duet.requests[0].failure")
    assert scientist.value("asked.state") == "'pending'"
    assert clinic.entries("answer", "release") == []
    killed(owner)


# -- the scientist -----------------------------------------------------------------------------------------


def test_a_scientist_killed_while_a_room_runs_ends_the_room_with_the_duet(clinic: Clinic) -> None:
    owner, scientist = clinic.both(LONG)
    scientist.run("asked = np.convolve(x, x).request()")
    busy_room(owner)
    started = descendants(owner.process.pid)
    killed(scientist)
    until(lambda: "closed: " in owner.value("duet.state"), "the duet goes on")
    until(lambda: not left_of(started), "a process is left")
    assert states(owner) == ["pending"]
    killed(owner)
    assert states(clinic.owner()) == ["pending"]
