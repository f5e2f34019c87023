"""Many duets in one process share one endpoint, and each of them ends alone."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import duetlink
from duetlink import errors
from duetlink.base.runtime.loop import LoopThread
from duetlink.net.flight.server import FlightServer
from duetlink.net.signaling import SessionCode
from duetlink.testing.faults import life_of, run_inside
from tests.conftest import MakeDuets


def until(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    end_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end_s, "it did not come about"
        threading.Event().wait(0.02)


def ours() -> list[str]:
    """The names of duetlink's threads and of asyncio's workers."""
    return sorted(
        thread.name for thread in threading.enumerate() if thread.name.startswith(("duetlink", "asyncio"))
    )


def not_of_the_endpoint() -> list[str]:
    """Those that are not in one of the endpoint's bounded pools."""
    pools = ("asyncio", "duetlink-read", "duetlink-codec")
    return [name for name in ours() if not name.startswith(pools)]


def sockets() -> dict[str, str]:
    """Descriptors of this process that are sockets, and their inodes."""
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue
        if target.startswith("socket:["):
            found[fd] = target[8:-1]
    return found


def listening() -> set[str]:
    """Inodes of this process's TCP sockets that listen (state 0A, proc(5))."""
    inodes = set(sockets().values())
    return {
        fields[9]
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]
        if (fields := line.split())[3] == "0A" and fields[9] in inodes
    }


def memories() -> int:
    """How many shared memories of ours this process has open."""
    count = 0
    for fd in os.listdir("/proc/self/fd"):
        try:
            count += os.readlink(f"/proc/self/fd/{fd}").startswith("/memfd:duetlink")
        except OSError:
            continue
    return count


@pytest.fixture
def flight_servers(monkeypatch: pytest.MonkeyPatch) -> list[FlightServer]:
    """Every Flight server that is made from here on."""
    made: list[FlightServer] = []
    init = FlightServer.__init__

    def counted(self: FlightServer, *arguments: Any, **keywords: Any) -> None:
        init(self, *arguments, **keywords)
        made.append(self)

    monkeypatch.setattr(FlightServer, "__init__", counted)
    return made


def settled(duet: duetlink.Duet) -> None:
    """Return when every path has been tried."""
    link = life_of(duet).link
    assert link is not None
    run_inside(duet, link.path_selector.wait_settled())


@pytest.mark.skipif(not os.path.isdir("/proc/self/net"), reason="counts sockets through /proc")
def test_sixteen_duets_have_at_most_forty_threads_one_flight_server_and_one_listener(
    make_duets: MakeDuets, flight_servers: list[FlightServer]
) -> None:
    before, threads = listening(), ours()
    pairs = [make_duets() for _ in range(8)]
    for owner, scientist in pairs:
        settled(owner)
        settled(scientist)
        shared = np.arange(300_000)
        owner.share(shared, "x", mock="auto")
        request = scientist.wait_object("x", 20).request("to look at it")
        owner.wait_request(20).approve()
        assert np.array_equal(request.result(20), shared)
    assert len(duetlink.duets) == 16
    assert len(ours()) - len(threads) <= 40, ours()
    assert ours().count("duetlink") == 1  # the loop
    assert ours().count("duetlink-audit") == 1
    assert len(flight_servers) == 1
    assert len(listening() - before) == 2  # Flight, and the mailbox server that the codes name
    duetlink.duets.close()
    until(lambda: ours() == threads)
    assert listening() == before


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors through /proc")
def test_a_duet_that_closes_leaves_nothing_of_its_own(make_duets: MakeDuets) -> None:
    stays, _ = make_duets()
    settled(stays)
    tasks = task_count(stays)
    gc.collect()
    threads, descriptors, kept = not_of_the_endpoint(), len(sockets()), memories()
    owner = duetlink.launch()
    scientist = duetlink.join(str(owner.code))
    settled(owner)
    settled(scientist)
    shared = np.arange(3_000_000)
    owner.share(shared, "x")
    request = scientist.wait_object("x", 20).request("to look at it")
    owner.wait_request(20).approve()
    got = request.result(20)
    gone = weakref.ref(shared)
    del shared, got, request
    scientist.close()
    owner.close()
    del scientist, owner
    until(lambda: task_count(stays) <= tasks)
    until(lambda: gc.collect() >= 0 and gone() is None)
    until(lambda: gc.collect() >= 0 and memories() == kept)
    until(lambda: len(sockets()) <= descriptors)
    until(lambda: not_of_the_endpoint() == threads)
    assert stays.ping() > 0


def task_count(duet: duetlink.Duet) -> int:
    async def count() -> int:
        return len(asyncio.all_tasks())

    return run_inside(duet, count())


def test_the_endpoint_ends_with_the_last_duet_and_begins_anew_with_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[LoopThread] = []

    class Noted(LoopThread):
        def __init__(self) -> None:
            super().__init__()
            threads.append(self)

    monkeypatch.setattr("duetlink.net.link.shared_endpoint.LoopThread", Noted)
    first, second = duetlink.launch(), duetlink.launch()
    first.close()
    assert [each.stopped for each in threads] == [False]
    assert second.state == "waiting"
    second.close()
    assert [each.stopped for each in threads] == [True]
    with duetlink.launch() as third:
        assert third.state == "waiting"
        assert [each.stopped for each in threads] == [True, False]


def test_a_code_outlives_the_duet_whose_kernel_has_begun_the_server(tmp_path: Path) -> None:
    first = duetlink.launch()
    with duetlink.launch() as second:
        assert SessionCode.parse(str(first.code)).server == SessionCode.parse(str(second.code)).server
        first.close()
        with duetlink.join(str(second.code)) as scientist:
            assert scientist.state == "connected"
            assert len(list((tmp_path / "runtime").iterdir())) == 1
    assert list((tmp_path / "runtime").iterdir()) == []


def test_what_waits_for_a_duet_that_closes_ends_and_what_waits_for_another_does_not(
    make_duets: MakeDuets,
) -> None:
    (owner, _), (other, other_scientist) = make_duets(), make_duets()
    ended: list[BaseException] = []

    def wait(duet: duetlink.Duet) -> None:
        try:
            duet.wait_object("x", 20)
        except BaseException as error:
            ended.append(error)

    threads = [threading.Thread(target=wait, args=(duet,)) for duet in (owner, other)]
    for thread in threads:
        thread.start()
    owner.close()
    threads[0].join(10)
    assert [type(error) for error in ended] == [errors.LinkClosed]
    assert threads[1].is_alive()
    other_scientist.share([1], "x")
    threads[1].join(10)
    assert len(ended) == 1


def test_a_grant_of_one_peer_is_no_other_peers(make_duets: MakeDuets) -> None:
    (owner, scientist), (other, other_scientist) = make_duets(), make_duets()
    values = np.arange(100_000)
    for duet in (owner, other):
        duet.share(values, "x")
    asked = scientist.wait_object("x", 20).request("to look at it")
    owner.wait_request(20).approve()
    assert asked.result(20)[1] == 1
    refused = other_scientist.wait_object("x", 20).request("me too")
    assert other.wait_request(20).state == "pending"
    with pytest.raises(errors.RequestTimeout):
        refused.result(0.2)
    assert len(other.requests.pending) == 1


def test_a_pointer_of_a_closed_duet_says_so(make_duets: MakeDuets) -> None:
    owner, scientist = make_duets()
    owner.share(np.arange(5), "x", mock="auto")
    pointer = scientist.wait_object("x", 20)
    later = pointer + 1
    owner.close("for today")
    until(lambda: scientist.state.startswith("closed"))
    ends: list[Callable[[], object]] = [lambda: None, scientist.close]
    for close in ends:
        close()
        uses: list[Callable[[], object]] = [
            lambda: pointer.get(),
            lambda: pointer.request("why"),
            lambda: later.get(),
            lambda: later.sum(),
        ]
        for use in uses:
            with pytest.raises(errors.LinkClosed, match=r"this pointer's duet is closed: .*for today"):
                use()


def test_a_request_that_could_still_expire_keeps_no_closed_duet(make_duets: MakeDuets) -> None:
    """The loop lives on with the duets of `make_duets`, and with it every timer that nobody has cancelled."""
    make_duets()
    owner = duetlink.launch(name="Olga")
    with duetlink.join(str(owner.code), name="Sven") as scientist:
        owner.share(np.arange(3.0), "x")
        waiting = scientist.wait_object("x", 10).request(expires_s=3600)
        owner.wait_request(10)
    owner.close()
    inbox = weakref.ref(life_of(owner).inbox)
    del owner, scientist, waiting
    until(lambda: gc.collect() >= 0 and inbox() is None)
