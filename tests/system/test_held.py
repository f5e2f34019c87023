"""What two processes and the worker hold of what is shared again and again: descriptors, memory, objects."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.system.conftest import Peer
from tests.system.descendants import descendants

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
    (zygote,) = (one.pid for one in descendants(owner.process.pid) if one.parent == owner.process.pid)
    pids = {"owner": owner.process.pid, "scientist": scientist.process.pid, "zygote": zygote}
    if not os.access(f"/proc/{zygote}/fd", os.R_OK):  # it is shut in: only root may look
        del pids["zygote"]
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


FEW = 160  # descriptors; a duet takes some 40


def few_descriptors(peer: Peer) -> None:
    answer = peer.run(f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({FEW}, {FEW}))")
    assert answer == "ok None", answer


def test_many_objects_are_shared_with_few_descriptors_and_any_of_them_is_got(peers: Peers) -> None:
    owner, scientist = peers()
    few_descriptors(owner)
    few_descriptors(scientist)
    shared = owner.run(
        "arrays = [duet.share(np.arange(20_000.0) + n, f'large {n}') for n in range(200)]; "
        "numbers = [duet.share(n, f'number {n}') for n in range(300)]; "
        "small = [duet.share(np.arange(100.0) + n, f'small {n}') for n in range(300)]"
    )
    assert shared == "ok None", shared
    owner.run("duet.policies.add(duetlink.Policy('approve'))")
    assert Counted.of(owner.process.pid).memfds <= 64 + SLACK
    scientist.run("duet.wait_object('small 299', 60)")
    got = scientist.run(
        "got = [duet.store[f'large {n}'].get(timeout_s=60) for n in range(200)]; "
        "out = [float(one[0]) for one in got] == [float(n) for n in range(200)]"
    )
    assert got == "ok True", got
    for name, first in (("number 0", "0"), ("number 299", "299")):
        assert scientist.value(f"duet.store[{name!r}].get(timeout_s=60)") == first
    assert scientist.value("float(duet.store['small 7'].get(timeout_s=60)[0])") == "7.0"
    assert Counted.of(owner.process.pid).memfds <= 64 + SLACK
    assert Counted.of(scientist.process.pid).memfds <= SLACK


def test_near_the_end_of_descriptors_sharing_is_refused_and_requests_and_the_audit_log_go_on(
    peers: Peers,
) -> None:
    owner, scientist = peers()
    owner.run("duet.share(np.arange(100.0), 'small'); duet.share(np.arange(200_000.0), 'large')")
    scientist.run("duet.wait_object('large', 60)")
    few_descriptors(owner)
    refused = owner.run(
        "import os; files = [os.open(os.devnull, os.O_RDONLY) for _ in range("
        f"{FEW} - 12 - len(os.listdir('/proc/self/fd')))]; duet.share(1, 'one more')"
    )
    assert refused.startswith("error DescriptorsShort 'one more' is not shared: 14"), refused
    assert f"of the {FEW} descriptors" in refused
    taken = owner.run("while True: files.append(os.open(os.devnull, os.O_RDONLY))")
    assert taken.startswith("error OSError"), taken  # none is left
    for name, items in (("small", 100), ("large", 200_000)):
        asked = f"out = duet.store[{name!r}].get(reason='why', timeout_s=60).shape"
        assert approve(owner, scientist, asked) == f"ok ({items},)"
    owner.run("[os.close(fd) for fd in files]; files.clear()")
    assert owner.run("duet.share(1, 'one more')") == "ok None"
    kinds = owner.value("[entry.kind for entry in duet.audit]")
    assert kinds.count("'release'") >= 2, kinds
