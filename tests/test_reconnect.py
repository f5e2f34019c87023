"""Two duets that lost their connection find each other again through the signaling server."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import duetlink
from duetlink import errors
from duetlink.base.runtime.loop import LoopThread
from duetlink.net.signaling.server import MailboxServer
from duetlink.settings import Settings
from duetlink.testing.faults import life_of, run_inside

QUICK = Settings(heartbeat_interval_s=0.1, heartbeat_timeout_s=0.6)


class Server:
    """A signaling server that can be stopped and started anew at its address."""

    def __init__(self) -> None:
        self._thread = LoopThread("server")
        self._mailboxes = MailboxServer()
        host, self._port = self._thread.run(self._mailboxes.start("127.0.0.1", 0))
        self.url = f"ws://{host}:{self._port}"

    def stop(self) -> None:
        self._thread.run(self._mailboxes.stop())

    def start(self) -> None:
        self._mailboxes = MailboxServer()
        self._thread.run(self._mailboxes.start("127.0.0.1", self._port))

    def close(self) -> None:
        self.stop()
        self._thread.stop()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def duets(server: Server) -> Iterator[tuple[duetlink.Duet, duetlink.Duet]]:
    with (
        duetlink.launch(signaling=server.url, settings=QUICK) as owner,
        duetlink.join(str(owner.code), signaling=server.url, settings=QUICK) as scientist,
    ):
        owner.wait_connected(10)
        yield owner, scientist


def cut_off(duet: duetlink.Duet, cut: Any) -> Callable[[], None]:
    """Cut `duet` off; returns what undoes it."""

    async def run(step: Callable[[], Any]) -> Any:
        return step()

    heal = run_inside(duet, run(lambda: cut(life_of(duet).link)))
    return lambda: run_inside(duet, run(heal))


def state_becomes(duet: duetlink.Duet, beginning: str) -> str:
    while not duet.state.startswith(beginning):
        threading.Event().wait(0.01)
    return duet.state


def test_a_pending_request_outlives_the_connection_and_the_signaling_server(
    server: Server, duets: tuple[duetlink.Duet, duetlink.Duet], cut: Any
) -> None:
    owner, scientist = duets
    array = np.arange(1_000_000.0)
    owner.share(array, "x")
    scientist.wait_object("x", 10)
    request = scientist.store["x"].request(reason="before the storm")
    owner.wait_request(10)
    server.stop()
    cut_off(owner, cut)
    assert "silent" in state_becomes(scientist, "reconnecting")
    state_becomes(owner, "reconnecting")
    approving = threading.Thread(target=owner.requests[0].approve)
    approving.start()  # said while nobody can hear it: it waits
    server.start()
    assert np.array_equal(request.result(60), array)
    approving.join()
    for duet in duets:
        state_becomes(duet, "connected")
        assert duet.statistics().reconnects == 1
    assert len(owner.requests) == 1


def test_what_is_asked_and_shared_meanwhile_arrives(
    server: Server, duets: tuple[duetlink.Duet, duetlink.Duet], cut: Any
) -> None:
    owner, scientist = duets
    server.stop()
    cut_off(scientist, cut)
    state_becomes(owner, "reconnecting")
    owner.share(1, "one")
    owner.share(2, "two")
    server.start()
    assert scientist.wait_object("two", 60).name == "two"
    assert scientist.wait_object("one", 60).name == "one"
    state_becomes(owner, "connected")
    assert scientist.ping() > 0


def test_while_the_link_is_lost_nothing_says_that_it_is_up(
    server: Server, duets: tuple[duetlink.Duet, duetlink.Duet], cut: Any
) -> None:
    owner, scientist = duets
    assert (owner.gives_up_in_s, scientist.gives_up_in_s) == (None, None)
    server.stop()
    cut_off(scientist, cut)
    first = state_becomes(owner, "reconnecting")
    left_s = owner.gives_up_in_s
    assert left_s is not None
    assert 3590 < left_s <= 3600
    assert owner.statistics().path is None
    assert "up" not in {path.state for path in owner.statistics().paths}
    paths = [finding for finding in owner.doctor(5).findings if finding.name.startswith("path ")]
    assert "unknown" in {finding.outcome for finding in paths}
    assert [finding.words for finding in paths if "Up" in finding.words] == []
    assert "given up in" in repr(owner)
    assert "none now" in repr(owner)
    while owner.state == first:  # the silence goes on, and its length is told
        threading.Event().wait(0.01)
    server.start()
    owner.reconnect()
    state_becomes(owner, "connected")
    assert owner.gives_up_in_s is None


def test_closed_for_good_it_says_so_with_the_reason(server: Server, cut: Any) -> None:
    settings = dataclasses.replace(QUICK, reconnect_timeout_s=0.5)
    with (
        duetlink.launch(signaling=server.url, settings=settings) as owner,
        duetlink.join(str(owner.code), signaling=server.url, settings=settings) as scientist,
    ):
        owner.wait_connected(10)
        server.stop()
        cut_off(owner, cut)
        assert "did not come back within 0.5 s" in state_becomes(scientist, "closed")
        with pytest.raises(errors.PeerLost, match="launch or join"):
            scientist.ping()
        server.start()
