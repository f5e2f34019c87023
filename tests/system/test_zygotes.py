"""The process that rooms are forked from: one for all duets of a kernel, and none once the last has ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from tests.system.conftest import Kernel, MakeKernel
from tests.system.descendants import Running, descendants, left_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("sys.platform != 'linux'", reason="rooms are forked under Linux alone"),
]

HANG_S = 100

# a duet with both of its sides here, and one result that its owner lets out
PAIR = """
def pair():
    owner = duetlink.launch(name="Olga")
    scientist = duetlink.join(owner.code, name="Sven")
    owner.wait_connected(60)
    owner.share(np.arange(10.0), "x", mock=np.ones(3))
    scientist.wait_object("x", 60)
    owner.policies.add(duetlink.Policy("approve"))
    return owner, scientist

def total(scientist):
    return float((scientist.store["x"] + 1).sum().get(timeout_s=60))
"""


def until(condition: Callable[[], object], what: str) -> None:
    deadline_s = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < deadline_s, what
        threading.Event().wait(0.02)


def prepared(make_kernel: MakeKernel) -> Kernel:
    kernel = make_kernel()
    assert kernel.run(f"exec({PAIR!r})") == "ok None"
    return kernel


def zygotes(kernel: Kernel) -> list[Running]:
    return [one for one in descendants(kernel.process.pid) if one.parent == kernel.process.pid]


def test_two_duets_share_one_and_it_ends_with_the_last(make_kernel: MakeKernel) -> None:
    kernel = prepared(make_kernel)
    kernel.run("first, second = pair(), pair()")
    assert kernel.value("total(first[1]), total(second[1])") == "(55.0, 55.0)"
    (zygote,) = zygotes(kernel)
    kernel.run("first[1].close(); first[0].close()")
    assert kernel.value("total(second[1])") == "55.0"
    assert zygotes(kernel) == [zygote]
    started = descendants(kernel.process.pid)
    kernel.run("second[1].close(); second[0].close()")
    until(lambda: not left_of(started), f"left: {left_of(started)}")
    kernel.run("third = pair()")
    assert kernel.value("total(third[1])") == "55.0"
    assert zygotes(kernel) != [zygote]


def test_two_kernels_have_each_their_own(make_kernel: MakeKernel) -> None:
    first, second = prepared(make_kernel), prepared(make_kernel)
    for kernel in (first, second):
        kernel.run("both = pair()")
        assert kernel.value("total(both[1])") == "55.0"
    (one,), (other,) = zygotes(first), zygotes(second)
    assert one.pid != other.pid
    started = descendants(first.process.pid)
    first.process.kill()
    until(lambda: not left_of(started), f"left: {left_of(started)}")
    assert second.value("total(both[1])") == "55.0"
    assert zygotes(second) == [other]


def test_a_fork_of_the_kernel_has_its_own_and_leaves_its_parents_alone(make_kernel: MakeKernel) -> None:
    kernel = prepared(make_kernel)
    kernel.run("import os; from duetlink.compute.worker.kernel.process import Room; both = pair()")
    assert kernel.value("total(both[1])") == "55.0"
    before = zygotes(kernel)
    kernel.run(
        "exec('def forked():\\n"
        "    pid = os.fork()\\n"
        "    if pid == 0:\\n"
        "        status = 1\\n"
        "        try:\\n"
        "            own = duetlink.launch()\\n"
        '            room = own._thread.run(Room.start(libraries=("numpy",)))\\n'
        '            status = 2 if room.libraries == ("numpy",) else 3\\n'
        "            own._thread.run(room.close())\\n"
        "            own.close()\\n"
        "        finally:\\n"
        "            os._exit(status)\\n"
        "    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])')"
    )
    assert kernel.value("forked()") == "2"
    assert kernel.value("total(both[1])") == "55.0"
    assert zygotes(kernel) == before
