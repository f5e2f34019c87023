"""An array of `duetlink.empty` between two processes: how much memory there is of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import pytest

from tests.system.conftest import Peer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="memfds exist on Linux only"),
]

Peers = Callable[[], tuple[Peer, Peer]]

SIZE_BYTES = 64 * 1024 * 1024
LITTLE_BYTES = SIZE_BYTES // 4  # what else these processes may need meanwhile


def memfd_bytes(pid: int) -> int:
    """The memory of all memfds that a process has open; one that is open twice counts once."""
    found = {}
    for fd in os.listdir(f"/proc/{pid}/fd"):
        path = f"/proc/{pid}/fd/{fd}"
        if "memfd:duetlink" in os.readlink(path):
            status = os.stat(path)
            found[status.st_ino] = status.st_blocks * 512
    return sum(found.values())


def anonymous_bytes(pid: int) -> int:
    """The memory of a process that is nobody else's and in no file or memfd."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Anonymous:"))


def test_there_is_one_copy_of_a_shared_array_until_someone_writes_to_it(peers: Peers) -> None:
    owner, scientist = peers()
    owner.run("duet.policies.add(duetlink.Policy('approve'))")
    scientist.run("duet.share(np.zeros(4), 'warm'); out = np.ones(1000).sum()")
    of_owner, of_scientist = owner.process.pid, scientist.process.pid

    owner.run(f"x = duetlink.empty({SIZE_BYTES}, 'uint8'); x[:] = 1")
    own, theirs, memfds = anonymous_bytes(of_owner), anonymous_bytes(of_scientist), memfd_bytes(of_owner)
    assert SIZE_BYTES <= memfds < SIZE_BYTES + LITTLE_BYTES

    owner.run("duet.share(x, 'x')")
    scientist.run("duet.wait_object('x', 10)")
    assert scientist.value("int((y := duet.store['x'].get(timeout_s=60)).sum())") == str(SIZE_BYTES)
    assert scientist.value("duet.statistics().transfers[-1].path") == "'local'"
    assert memfd_bytes(of_owner) < memfds + LITTLE_BYTES
    assert anonymous_bytes(of_owner) < own + LITTLE_BYTES
    assert anonymous_bytes(of_scientist) < theirs + LITTLE_BYTES

    owner.run("x[:] = 2")
    assert scientist.value("int(y.max())") == "1"
    assert anonymous_bytes(of_owner) >= own + SIZE_BYTES  # the owner's own copy, of what it wrote
    scientist.run("y[:] = 3")
    assert owner.value("int(x.max())") == "2"
    assert scientist.value("int(duet.store['x'].get(timeout_s=60).max())") == "1"

    owner.run("del x; duet.store['x'].unshare()")
    owner.run("import gc; gc.collect()")
    assert memfd_bytes(of_owner) < LITTLE_BYTES
    assert scientist.value("int(y.min())") == "3"
