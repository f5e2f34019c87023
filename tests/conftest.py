"""What all tests share: connected links and duets; nothing is left behind; no silent skips in CI."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import hypothesis  # loaded first: its own late import inside pytest has met a CPython 3.11 defect
import pytest

import duetlink
from duetlink.duet.answering.programs import Programs
from duetlink.duet.duet import Duet
from duetlink.net.flight.certificate import Identity
from duetlink.net.link.endpoint import Endpoint
from duetlink.net.link.introducing import Introducing
from duetlink.net.link.link import Link
from duetlink.net.peer.connection import PeerConnection
from duetlink.settings import Settings
from duetlink.testing.faults import cut_link
from tests.parallel import ByFile, longest_first
from tests.shared_zygote import SharedZygote, sharing
from tests.turn_server import TurnServer, run_turn_server

LinkPair = tuple[Link, Link]
MakePair = Callable[..., Coroutine[Any, Any, LinkPair]]
DuetPair = tuple[Duet, Duet]
MakeDuets = Callable[..., DuetPair]

# Generated examples are the same in every run and may take any time: a change is judged by what it changed,
# not by luck or by how busy the machine is. The weekly job draws new ones with the other profile.
hypothesis.settings.load_profile("ci")
hypothesis.settings.register_profile("search", derandomize=False)  # and else as "ci"

# so that a suite never meets a person's own servers
os.environ.pop("DUETLINK_SIGNALING", None)
os.environ.pop("DUETLINK_ICE_SERVERS", None)
# what serves several tests records nothing, what a test starts has a log of its own: see `private_audit_log`
os.environ["DUETLINK_AUDIT_PATH"] = ""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """With DUETLINK_NO_SKIP, a skipped test is a failure: CI tests everything or says so."""
    report = yield
    if report.skipped and os.environ.get("DUETLINK_NO_SKIP"):
        report.outcome = "failed"
        report.longrepr = f"skipped where nothing may be skipped: {report.longrepr}"
    return report


def pytest_xdist_auto_num_workers() -> int:
    """For `pytest -n auto`: one more than there are cores, since most tests wait more than they compute."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is long begins first."""
    longest_first(items)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    """For `pytest -n`, which runs tests in several processes, whatever `--dist` says."""
    return ByFile(config, log)


def pytest_collection_finish() -> None:
    """What is loaded by now stays: no collection of garbage looks at a million objects of libraries again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def private_runtime_directory(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Embedded signaling servers of different tests do not find each other."""
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))


@pytest.fixture(autouse=True)
def private_audit_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test writes to the log of the user who runs it, in a process of its own neither."""
    path = tmp_path / "audit" / "audit.jsonl"
    monkeypatch.setenv("DUETLINK_AUDIT_PATH", str(path))
    # `Settings()` reads no variables, and takes the user's data directory
    monkeypatch.setattr("platformdirs.user_data_dir", lambda *_, **__: str(path.parent))
    return path


@pytest.fixture(autouse=True)
def no_worker_ahead_of_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test shares with a mock makes no room ready before somebody wants one: it costs seconds."""
    monkeypatch.setattr(Programs, "expect", lambda self: None)


@pytest.fixture(scope="session", autouse=True)
def shared_zygote() -> Iterator[SharedZygote]:
    """What the rooms of all duets are forked from, as long as a test starts no other program."""
    with sharing() as shared:
        yield shared


@pytest.fixture(autouse=True)
def nothing_left_behind(request: pytest.FixtureRequest, shared_zygote: SharedZygote) -> Iterator[None]:
    """Every thread and every descriptor that a test opens is gone when it ends, or soon after."""
    # whatever loads once and stays (a library's own pipes) is loaded by the first test, which is not counted
    threads, descriptors = _threads(), _descriptors()
    yield
    request.node.funcargs.clear()  # pytest holds the test's own objects until after this
    # only what stays for good is still there then: a zygote that is just starting on a busy machine is not
    deadline_s = time.monotonic() + 100.0
    while True:
        left_threads = [thread.name for thread in _threads() - threads if thread.is_alive()]
        left_descriptors = {
            fd: to for fd, to in _descriptors().items() if fd not in descriptors and _ours(to)
        }
        for fd in shared_zygote.descriptors():
            left_descriptors.pop(fd, None)
        if not left_threads and not left_descriptors:
            return
        gc.collect()  # a mapped value holds its memory's descriptor, and may be part of a cycle
        if time.monotonic() > deadline_s:
            pytest.fail(f"left behind: threads {left_threads}, descriptors {left_descriptors}")
        threading.Event().wait(0.02)


def _threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith(("duetlink", "asyncio_"))}


def _descriptors() -> dict[str, str]:
    found = {}
    for fd in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ():
        try:
            found[fd] = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue
    return found


def _ours(target: str) -> bool:
    # gRPC keeps pipes and event descriptors of its process-wide poller
    return target.startswith(("socket:", "/memfd:duetlink"))


Cut = Callable[[Link], Callable[[], None]]


@pytest.fixture
def cut() -> Cut:
    """Lets nothing leave the sockets of a link's connection any more; returns what undoes it."""
    return cut_link


@pytest.fixture
def turn_server(tmp_path: Path) -> Iterator[TurnServer]:
    """A real STUN and TURN server on loopback; user `u`, password `p`."""
    with run_turn_server(tmp_path) as server:
        yield server


@pytest.fixture
async def make_pair() -> AsyncIterator[MakePair]:
    """Makes connected links: `initiator, other = await make_pair(settings_a, settings_b)`."""
    made: list[Link] = []
    introducing: list[Introducing] = []
    endpoints: set[Endpoint] = set()

    async def make(
        settings: Settings | None = None,
        other_settings: Settings | None = None,
        *,
        endpoint: Endpoint | None = None,
        other_endpoint: Endpoint | None = None,
        start: bool = True,
        spoil: bool = False,
    ) -> LinkPair:
        settings = settings or Settings()
        other_settings = other_settings or settings
        mine, theirs = endpoint or Endpoint(), other_endpoint or Endpoint()
        endpoints.update((mine, theirs))
        if spoil:  # the second introduces itself with a certificate that is none
            theirs.identity = Identity(b"no certificate", b"")
        offering, answering = PeerConnection([]), PeerConnection([])
        one, two = Introducing(offering, settings, mine), Introducing(answering, other_settings, theirs)
        introducing.extend((one, two))
        await one.accept(await answering.answer(await offering.offer()))
        links = await asyncio.gather(
            Link.connect(one, settings, mine, "scientist", initiator=True),
            Link.connect(two, other_settings, theirs, "owner", initiator=False),
        )
        made.extend(links)
        if start:
            for link in links:
                link.start()
        return links[0], links[1]

    yield make
    await asyncio.gather(*(link.close() for link in made))
    await asyncio.gather(*(one.close() for one in introducing))
    await asyncio.gather(*(endpoint.close() for endpoint in endpoints))


@pytest.fixture
def make_duets() -> Iterator[MakeDuets]:
    """Makes `(owner, scientist)`, connected; keyword arguments are settings of both."""
    made: list[Duet] = []

    def make(**settings: Any) -> DuetPair:
        chosen = Settings(**settings)
        owner = duetlink.launch(name="Olga", settings=chosen)
        made.append(owner)
        assert owner.code is not None
        scientist = duetlink.join(owner.code, name="Sven", settings=chosen)
        made.append(scientist)
        return owner.wait_connected(10), scientist

    yield make
    for duet in made:
        duet.close()


@pytest.fixture
def duets(make_duets: MakeDuets) -> DuetPair:
    return make_duets()
