"""A new code for a duet whose peer is lost: who joins with it, with what, and who cannot come back."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import duetlink
from duetlink import errors
from duetlink.net.signaling import Role, WebSocketMailbox
from duetlink.settings import Settings
from tests.test_reconnect import QUICK, Server, cut_off, state_becomes
from tests.test_session import other_words


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def owner(server: Server) -> Iterator[duetlink.Duet]:
    with duetlink.launch(signaling=server.url, settings=QUICK) as owner:
        yield owner


Join = Callable[..., duetlink.Duet]


@pytest.fixture
def join(owner: duetlink.Duet, server: Server) -> Iterator[Join]:
    joined: list[duetlink.Duet] = []

    def join(name: str = "Ada", settings: Settings = QUICK) -> duetlink.Duet:
        joined.append(duetlink.join(str(owner.code), name=name, signaling=server.url, settings=settings))
        owner.wait_connected(10)
        return joined[-1]

    yield join
    for duet in joined:
        duet.close()


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """While it is set, scientists that were paired find no signaling server; it is set."""
    away, meet = threading.Event(), WebSocketMailbox.meet
    away.set()

    async def meet_if_there(url: str, place: bytes, role: Role) -> WebSocketMailbox:
        if away.is_set() and role is Role.SCIENTIST:
            raise errors.SignalingUnavailable("there is no network")
        return await meet(url, place, role)

    monkeypatch.setattr(WebSocketMailbox, "meet", meet_if_there)
    return away


def lose(owner: duetlink.Duet, scientist: duetlink.Duet, cut: Any) -> None:
    """The scientist's kernel is gone, and the owner hears nothing of it."""
    cut_off(scientist, cut)
    state_becomes(owner, "reconnecting")


@pytest.mark.usefixtures("away")
def test_whoever_joins_with_the_new_code_has_what_the_peer_before_had(
    owner: duetlink.Duet, join: Join, cut: Any
) -> None:
    owner.policies.add(duetlink.Policy("approve", assets="open", peers="Ada"))
    for number, name in enumerate(("granted", "asked", "open")):
        owner.share(np.arange(3) + number, name, mock=np.zeros(3, int))
    first = join()
    asking = first.wait_object("granted", 10).request(reason="first")
    owner.wait_request(10).approve()
    assert asking.result(10).tolist() == [0, 1, 2]
    first.store["asked"].request(reason="for figure 2")
    request = owner.wait_request(10)
    verifier = owner.verifier
    lose(owner, first, cut)
    owner.invite()
    assert owner.invited
    second = join(name="Ada on another laptop")
    assert state_becomes(owner, "connected")
    assert not owner.invited
    # under the name that it was invited for
    assert owner.peer == "Ada"
    assert owner.verifier == second.verifier != verifier
    assert sorted(second.store) == ["asked", "granted", "open"]
    assert second.store["granted"].get(timeout_s=10).tolist() == [0, 1, 2]
    assert second.store["open"].get(timeout_s=10).tolist() == [2, 3, 4]
    assert (request.state, len(owner.requests.pending)) == ("pending", 1)
    again = second.store["asked"].request(reason="for figure 2")
    while request.times < 2:
        threading.Event().wait(0.01)
    assert [pending.number for pending in owner.requests.pending] == [request.number]
    request.approve()
    assert again.result(10).tolist() == [1, 2, 3]
    entries = [entry for entry in owner.audit if entry.kind == "connected"]
    assert [entry.peer for entry in entries] == ["Ada", "Ada"]
    assert entries[1].reason == (
        "by a new code, in the place of the peer before; it calls itself 'Ada on another laptop'"
    )


@pytest.mark.usefixtures("away")
def test_a_yes_that_never_reached_the_peer_before_holds_for_the_next_one(
    owner: duetlink.Duet, join: Join, cut: Any
) -> None:
    owner.share(np.arange(3), "x")
    first = join()
    first.wait_object("x", 10).request(reason="for figure 2")
    request = owner.wait_request(10)
    lose(owner, first, cut)
    raised: list[BaseException] = []

    def approve() -> None:
        try:
            request.approve()
        except errors.LinkClosed as error:
            raised.append(error)

    approving = threading.Thread(target=approve)
    approving.start()
    while request.state != "approved":  # and nobody hears it
        threading.Event().wait(0.01)
    owner.invite()
    second = join()
    approving.join(30)
    assert [type(error) for error in raised] == [errors.LinkClosed]
    assert second.wait_object("x", 10).get(timeout_s=10).tolist() == [0, 1, 2]
    assert (request.state, len(owner.requests)) == ("approved", 1)


def test_the_peer_before_cannot_come_back(
    owner: duetlink.Duet, join: Join, cut: Any, away: threading.Event
) -> None:
    owner.share(1, "one")
    first = join(settings=dataclasses.replace(QUICK, reconnect_timeout_s=3.0))
    heal = cut_off(first, cut)
    for lost in (owner, first):
        state_becomes(lost, "reconnecting")
    owner.invite()
    second = join()
    heal()
    away.clear()
    assert "did not come back within 3 s" in state_becomes(first, "closed")
    assert owner.state == second.state == "connected"
    assert second.wait_object("one", 10).get is not None


def test_a_peer_that_comes_back_first_withdraws_the_new_code(
    owner: duetlink.Duet, join: Join, cut: Any, away: threading.Event
) -> None:
    first = join()
    lose(owner, first, cut)
    owner.invite()
    away.clear()
    owner.reconnect()
    state_becomes(owner, "connected")
    while owner.invited:
        threading.Event().wait(0.01)
    with pytest.raises((errors.UnknownCode, errors.CodeUsed, errors.PairingError, errors.LinkClosed)):
        join()
    assert first.ping() > 0


@pytest.mark.usefixtures("away")
def test_a_wrong_guess_burns_the_new_code_and_the_next_one_is_good(
    owner: duetlink.Duet, server: Server, join: Join, cut: Any
) -> None:
    lose(owner, join(), cut)
    owner.invite()
    with pytest.raises(errors.WrongCode):
        duetlink.join(other_words(str(owner.code)), signaling=server.url)
    while owner.invited:
        threading.Event().wait(0.01)
    assert "a wrong code was tried" in owner.state
    owner.invite()
    assert "no one joined" not in owner.state
    join()
    assert state_becomes(owner, "connected") == "connected"


@pytest.mark.usefixtures("away")
def test_what_the_owner_had_of_the_peer_before_is_not_taken_for_the_next_ones(
    owner: duetlink.Duet, join: Join, cut: Any
) -> None:
    first = join()
    first.share(np.arange(3.0), "theirs", mock=np.zeros(3))
    first.send("a note", "note")
    pointer = owner.wait_object("theirs", 10)
    waiting = pointer.request(reason="never answered")
    owner.compression.rate_cap_bytes_per_s = 5_000_000
    result = pointer + 1
    lose(owner, first, cut)
    owner.invite()
    second = join()
    state_becomes(owner, "connected")
    for old in (pointer, result):
        with pytest.raises(errors.LinkClosed, match=r"take a new pointer from duet\.store"):
            old.get(reason="x", timeout_s=10)
    with pytest.raises(errors.LinkClosed):
        waiting.result(10)
    assert list(owner.store) == ["note"]
    assert len(owner.asked) == 1
    second.share(np.arange(4.0), "theirs", mock=np.ones(4))
    assert (owner.wait_object("theirs", 10).mock == np.ones(4)).all()
    while second.compression.rate_cap_bytes_per_s != 5_000_000:
        threading.Event().wait(0.01)


def test_a_new_code_is_for_the_owner_of_a_link_that_is_lost(owner: duetlink.Duet, join: Join) -> None:
    with pytest.raises(errors.LocalProtocolError, match="this duet is waiting"):
        owner.invite()
    scientist = join()
    with pytest.raises(errors.LocalProtocolError, match="this duet is connected"):
        owner.invite()
    with pytest.raises(errors.LocalProtocolError, match="only the owner"):
        scientist.invite()
    owner.close()
    with pytest.raises(errors.LinkClosed):
        owner.invite()


@pytest.mark.usefixtures("away")
def test_of_two_new_codes_at_once_one_is_good(
    owner: duetlink.Duet, server: Server, join: Join, cut: Any
) -> None:
    lose(owner, join(), cut)
    seen: set[str] = set()
    unwatch = owner.watch(lambda: seen.add(str(owner.code)))
    threads = [threading.Thread(target=owner.invite) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    unwatch()
    for code in seen - {str(owner.code)}:
        with pytest.raises((errors.UnknownCode, errors.CodeUsed, errors.PairingError, errors.LinkClosed)):
            duetlink.join(code, signaling=server.url, settings=QUICK)
    join()
