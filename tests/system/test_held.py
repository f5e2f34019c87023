"""What two processes and the worker hold of what is shared again and again: descriptors, memory, objects."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.system.conftest import Peer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors through /proc"),
]

Peers = Callable[[], tuple[Peer, Peer]]

ITEMS = 262_144  # 2 MiB of float64
WARM_UP = 6
SLACK = 4  # of what is on its way at the moment, or waits for a collection of garbage

KINDS = ("Outgoing", "SharedMemory", "Content", "mmap", "Retained", "Pointer", "Revision")
COUNT = (
    "(gc.collect(), {kind: sum(type(one).__name__ == kind for one in gc.get_objects() + "
    "[ref for one in gc.get_objects() for ref in gc.get_referents(one) if type(ref).__name__ == 'mmap'])"
    f" for kind in {KINDS}" + "})[1]"
)


@dataclass(frozen=True)
class Counted:
    """What a process has open and mapped."""

    descriptors: int
    memfds: int
    mappings: int

    @classmethod
    def of(cls, pid: int) -> Counted:
        targets = []
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                targets.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
            except FileNotFoundError:  # closed meanwhile
                continue
        mapped = Path(f"/proc/{pid}/maps").read_text().count("/memfd:duetlink")
        return cls(len(targets), sum("/memfd:duetlink" in target for target in targets), mapped)

    def exceeds(self, before: Counted) -> bool:
        return (
            self.descriptors > before.descriptors + SLACK
            or self.memfds > before.memfds + SLACK
            or self.mappings > before.mappings + SLACK
        )


def objects(peer: Peer) -> dict[str, int]:
    """How many objects of each of KINDS a process has."""
    peer.run("import gc")
    found: dict[str, int] = eval(peer.value(COUNT))
    return found


def resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def approve(owner: Peer, scientist: Peer, wanted: str) -> str:
    """What the scientist gets when the owner's person says yes."""
    scientist.begin(wanted)
    answer = owner.run("duet.wait_request(60).approve()")
    assert answer == "ok None", answer
    return scientist.answer()


def round_of(owner: Peer, scientist: Peer, number: int, *, unshare: bool = False) -> None:
    """Share a table anew, have it got, computed on, and the result got."""
    owner.run(f"x = np.arange({ITEMS}.0) + {number}")
    answer = owner.run(f"a = duet.share(x, 'x', mock='auto'); out = a.revision == {number}")
    assert answer == "ok True", answer
    scientist.run(f"p = duet.wait_object('x', 60, revision={number})")
    got = approve(owner, scientist, "out = float(p.get(reason='to look', timeout_s=60)[0])")
    assert got == f"ok {number}.0", got
    got = approve(owner, scientist, "out = float((p + 1).min().get(reason='least', timeout_s=60))")
    assert got == f"ok {number + 1}.0", got
    if unshare:
        owner.run("a.unshare()")


@pytest.mark.parametrize("unshare", [False, True], ids=["shared again", "unshared between"])
@pytest.mark.timeout(400)
def test_shares_again_and_again_leave_nothing_more_in_any_process(peers: Peers, unshare: bool) -> None:
    owner, scientist = peers()
    for number in range(1, WARM_UP + 1):
        round_of(owner, scientist, number, unshare=unshare)
    worker = int(owner.value("duet._life.workplace.worker.pid"))
    pids = {"owner": owner.process.pid, "scientist": scientist.process.pid, "worker": worker}
    if not os.access(f"/proc/{worker}/fd", os.R_OK):  # it is shut in: only root may look
        del pids["worker"]
    kinds = {"owner": objects(owner), "scientist": objects(scientist)}
    before = {name: Counted.of(pid) for name, pid in pids.items()}
    resident = {name: resident_bytes(pid) for name, pid in pids.items()}
    for number in range(WARM_UP + 1, WARM_UP + 31):
        round_of(owner, scientist, number, unshare=unshare)
    kinds_after = {"owner": objects(owner), "scientist": objects(scientist)}
    after = {name: Counted.of(pid) for name, pid in pids.items()}
    assert {name: after[name] for name in pids if after[name].exceeds(before[name])} == {}, before
    more = {
        (name, kind): (kinds[name][kind], count)
        for name in kinds
        for kind, count in kinds_after[name].items()
        if count > kinds[name][kind] + SLACK
    }
    assert more == {}
    # thirty tables have 60 MiB
    grown = {name: resident_bytes(pid) - resident[name] for name, pid in pids.items()}
    assert {name: size for name, size in grown.items() if size > 30 * 1024 * 1024} == {}
