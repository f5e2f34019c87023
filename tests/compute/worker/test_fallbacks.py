"""Where a system has less to shut a room in with, it says so, and Python's own fence stands."""

from __future__ import annotations

import sys

import pytest

from tests.compute.worker.conftest import BOOTSTRAP, StartWorker

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="this system has nothing to leave out")

HOOK = b"refused by the hook"


def without(*replacements: str) -> str:
    """The tests' program of a room, with parts of the sandbox switched off."""
    return BOOTSTRAP.replace("main(", f"{chr(10).join(replacements)}\nmain(")


NO_LANDLOCK = "from duetlink.compute.worker.sandbox import landlock; landlock.abi = lambda: 0"
NO_SECCOMP = "from duetlink.compute.worker.sandbox import seccomp; seccomp.machine = lambda: None"


async def test_without_landlock(start_worker: StartWorker) -> None:
    worker = await start_worker(bootstrap=without(NO_LANDLOCK))
    assert not worker.isolation.enforced
    assert worker.isolation.filesystem == "seccomp (changes only), audit hook"
    assert (await worker.call("read", b"/etc/passwd")).content == HOOK
    assert (await worker.call("write", b"/tmp/duetlink-new")).content == HOOK
    assert (await worker.call("raw_open", b"577 /tmp/duetlink-new")).content == b"EACCES"
    assert (await worker.call("raw_call", b"socket 2 1 0")).content == b"EPERM"


async def test_without_seccomp(start_worker: StartWorker) -> None:
    worker = await start_worker(bootstrap=without(NO_SECCOMP))
    assert not worker.isolation.enforced
    assert worker.isolation.network == worker.isolation.processes == "audit hook"
    assert (await worker.call("raw_open", b"0 /etc/passwd")).content == b"EACCES"
    for command in ("fork", "spawn", "kill_parent"):
        assert (await worker.call(command)).content == HOOK
    assert (await worker.call("connect", b"9")).content == HOOK


async def test_without_both(start_worker: StartWorker) -> None:
    worker = await start_worker(bootstrap=without(NO_LANDLOCK, NO_SECCOMP))
    assert str(worker.isolation) == (
        "files: audit hook; network: audit hook; processes: audit hook; memory: RLIMIT_DATA"
    )
    for command, content in (
        ("read", b"/etc/passwd"),
        ("list_directory", b"/"),
        ("write", b"/tmp/duetlink-new"),
        ("remove", b"/tmp/duetlink-new"),
        ("spawn", b""),
        ("fork", b""),
        ("kill_parent", b""),
        ("connect", b"9"),
        ("raise_limit", b""),
        ("evaluate", b"1"),
        ("load_library", b"libm.so.6"),
        ("map_anonymous_shared", b"4096"),
    ):
        assert (await worker.call(command, content)).content == HOOK, command
    os_file = sys.modules["os"].__file__ or ""
    assert (await worker.call("read", os_file.encode())).content == b"done: 10"
