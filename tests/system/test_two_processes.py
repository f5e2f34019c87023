"""Whole systems: two interpreters, the real server between them, and what happens when one of them dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.system.conftest import Peer

pytestmark = pytest.mark.slow

Peers = Callable[[], tuple[Peer, Peer]]

BUSY_S = 6  # three times the silence that makes these links look for each other


def shared_memory_of(pid: int) -> list[str]:
    links = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        target = os.readlink(f"/proc/{pid}/fd/{fd}")
        if "memfd:duetlink" in target:
            links.append(target)
    return links


def state_becomes(peer: Peer, start: str) -> str:
    """Wait for a state, bounded by the test's timeout."""
    while True:
        state = peer.value("duet.state").strip("'\"")
        if state.startswith(start):
            return state
        threading.Event().wait(0.1)


def give_and_take(owner: Peer, scientist: Peer, elements: int = 3_000_000) -> None:
    """One array from owner to scientist, by request and approval."""
    owner.run(f"x = np.arange({elements}.0); duet.share(x, 'x')")
    while scientist.value("'x' in duet.store") != "True":
        pass
    scientist.begin("y = duet.store['x'].get(reason='test', timeout_s=60); out = float(y[-1])")
    owner.run("duet.wait_request(60).approve()")
    assert scientist.answer() == f"ok {elements - 1}.0"


def test_an_array_crosses_from_process_to_process(peers: Peers) -> None:
    owner, scientist = peers()
    give_and_take(owner, scientist)
    assert scientist.value("duet.statistics().transfers[-1].path") == "'local'"
    assert owner.value("duet.verifier") == scientist.value("duet.verifier")


def test_a_killed_owner_is_noticed_and_leaves_nothing(peers: Peers) -> None:
    owner, scientist = peers()
    give_and_take(owner, scientist)
    assert shared_memory_of(owner.process.pid)
    before = scientist.value("float(y[7])")
    owner.process.send_signal(signal.SIGKILL)
    owner.process.wait()
    state = state_becomes(scientist, "closed")
    assert "silent" in state or "connection to the peer ended" in state
    assert scientist.run("duet.send(1, 'x')").startswith("error ")
    assert scientist.value("float(y[7])") == before  # what was mapped stays whole
    named = [path for path in Path("/dev/shm").iterdir() if "duetlink" in path.name]
    assert named == []


def test_a_waiting_request_ends_when_the_owner_is_killed(peers: Peers) -> None:
    owner, scientist = peers()
    owner.run("duet.share(1, 'x')")
    while scientist.value("'x' in duet.store") != "True":
        pass
    scientist.begin("duet.store['x'].get()")
    owner.run("duet.wait_request(30)")
    owner.process.send_signal(signal.SIGKILL)
    assert scientist.answer().startswith("error PeerLost")


def test_an_interpreter_that_ends_tells_the_peer(peers: Peers) -> None:
    owner, scientist = peers()
    scientist.end()
    assert scientist.process.returncode == 0
    assert "its kernel has ended" in state_becomes(owner, "closed")


@pytest.mark.parametrize("busy_side", ["owner", "scientist"])
def test_a_blocked_cell_of_a_minute_does_not_drop_the_link(peers: Peers, busy_side: str) -> None:
    owner, scientist = peers()
    blocked, free = (owner, scientist) if busy_side == "owner" else (scientist, owner)
    # in pure Python, which never lets go of the interpreter by itself, as a sleep does
    spin = f"import time; end = time.monotonic() + {BUSY_S}; exec('while time.monotonic() < end: pass')"
    blocked.begin(spin)
    # meanwhile the other side goes on: heartbeats answered, something delivered
    assert free.run("duet.send(np.ones(1000), 'while you were away')") == "ok None"
    assert free.value("duet.ping() < 5") == "True"
    assert blocked.answer() == "ok None"
    assert free.value("duet.state") == blocked.value("duet.state") == "'connected'"
    give_and_take(owner, scientist, 100_000)


def test_a_script_that_forgets_to_close_ends_by_itself() -> None:
    program = "import duetlink; duet = duetlink.launch(); print(duet.state)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.endswith("waiting\n")
    assert done.stderr == ""
