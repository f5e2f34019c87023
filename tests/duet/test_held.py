"""What a duet goes on holding: answered requests up to a number, nothing for each call."""

from __future__ import annotations

import gc
from collections import Counter
from typing import Any

import numpy as np
import pytest

from duetlink import Policy, errors
from duetlink.duet.answering import queue
from duetlink.duet.duet import Duet
from duetlink.testing.faults import kept_counts, runner_of
from tests.conftest import DuetPair, MakeDuets
from tests.duet.test_duet import pointer, until
from tests.duet.test_many_duets import settled


@pytest.fixture
def short_history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "HISTORY", 5)


def counted(*kinds: str) -> Counter[str]:
    """How many objects of these classes there are."""
    gc.collect()
    return Counter(name for one in gc.get_objects() if (name := type(one).__name__) in kinds)


def granted(owner: Duet, scientist: Duet, name: str) -> Any:
    """What the scientist gets by a person's yes."""
    pending = pointer(scientist, name).request("to look at it")
    owner.wait_request(10).approve()
    return pending.result(10)


def denied(scientist: Duet, times: int) -> None:
    for _ in range(times):
        with pytest.raises(errors.RequestDenied):
            pointer(scientist, "denied").get(reason="why not", timeout_s=10)


def test_answered_requests_are_forgotten_oldest_first_and_numbers_stay(
    duets: DuetPair, short_history: None
) -> None:
    owner, scientist = duets
    owner.policies.add(Policy("deny", assets=("denied",)))
    owner.share(1, "waits")
    owner.share(2, "denied")
    waiting = pointer(scientist, "waits").request("later")
    first = owner.wait_request(10)
    denied(scientist, 12)
    assert [request.number for request in owner.requests] == [0, 8, 9, 10, 11, 12]
    assert owner.requests[9].state == "denied"
    with pytest.raises(IndexError, match="no request 3 any more"):
        owner.requests[3]
    with pytest.raises(IndexError, match="no request 13; 13 have arrived"):
        owner.requests[13]
    first.approve()
    assert waiting.result(10) == 1


def test_what_a_person_has_granted_stands_until_it_is_shared_again(
    duets: DuetPair, short_history: None
) -> None:
    owner, scientist = duets
    owner.policies.add(Policy("deny", assets=("denied",)))
    owner.share(1, "granted")
    owner.share(2, "denied")
    assert granted(owner, scientist, "granted") == 1
    denied(scientist, 12)
    assert owner.requests[0].state == "approved"
    assert pointer(scientist, "granted").get(timeout_s=10) == 1
    assert owner.requests[0].times == 2
    owner.share(3, "granted")
    denied(scientist, 6)
    with pytest.raises(IndexError, match="no request 0 any more"):
        owner.requests[0]


def test_what_a_policy_has_let_out_is_asked_anew_when_its_request_is_forgotten(
    duets: DuetPair, short_history: None
) -> None:
    owner, scientist = duets
    owner.policies.add(Policy("deny", assets=("denied",)))
    owner.policies.add(Policy("approve", assets=("open",)))
    owner.share(1, "open")
    owner.share(2, "denied")
    assert pointer(scientist, "open").get(timeout_s=10) == 1
    denied(scientist, 7)
    assert pointer(scientist, "open").get(timeout_s=10) == 1
    assert (owner.requests[-1].number, owner.requests[-1].by) == (8, "policy 2")


def test_a_request_that_could_still_expire_is_forgotten_as_well(duets: DuetPair, short_history: None) -> None:
    owner, scientist = duets
    owner.policies.add(Policy("deny", assets=("denied",)))
    owner.share(1, "waits")
    owner.share(2, "denied")
    for _ in range(12):
        pending = pointer(scientist, "waits").request("later", expires_s=3600)
        owner.wait_request(10).deny("no")
        with pytest.raises(errors.RequestDenied):
            pending.result(10)
    denied(scientist, 6)
    assert [request.asset.name for request in owner.requests] == ["denied"] * 5
    assert kept_counts(runner_of(owner))["timers"] == 0


def test_an_owner_that_answers_again_and_again_keeps_nothing_for_each_call(duets: DuetPair) -> None:
    owner, scientist = duets
    small, large = np.arange(10.0), np.arange(300_000.0)
    owner.share(small, "small")
    owner.share(large, "large")
    kinds = ("Asker", "Handling", "Incoming", "Case", "Outgoing", "Retained", "TransferOffer", "Question")
    for name in ("small", "large"):
        assert len(granted(owner, scientist, name)) > 0
    before = counted(*kinds)
    for _ in range(40):
        for name in ("small", "large"):
            pointer(scientist, name).get(reason="to look at it", timeout_s=10)
    after = counted(*kinds)
    assert {kind: (before[kind], after[kind]) for kind in kinds if after[kind] > before[kind] + 6} == {}


def test_a_call_that_waits_leaves_nothing_behind(duets: DuetPair) -> None:
    owner, scientist = duets
    owner.share(1, "x")
    pointer(scientist, "x")
    before = counted("Future", "Task")
    for _ in range(40):
        scientist.wait_object("x", 10)
        with pytest.raises(errors.RequestTimeout):
            owner.wait_request(0)
    after = counted("Future", "Task")
    assert {kind: count for kind, count in after.items() if count > before[kind] + 6} == {}


def reasons(duet: Duet) -> dict[str, tuple[str, ...]]:
    return {held.title: held.reasons for held in duet.status().held}


def test_the_status_says_what_each_side_holds_and_why(duets: DuetPair) -> None:
    owner, scientist = duets
    settled(owner)
    assert (reasons(owner), reasons(scientist)) == ({}, {})
    asset = owner.share(np.arange(100_000.0), "x", mock="auto")
    until(lambda: "shared memory of x, revision 1" in reasons(owner))
    assert reasons(owner) == {
        "x, revision 1": ("offered to the peer",),
        "mock of x, revision 1": ("offered to the peer",),
        "shared memory of x, revision 1": ("the peer may fetch it",),
    }
    pending = pointer(scientist, "x").request("to look at it")
    request = owner.wait_request(10)
    assert reasons(owner)["x, revision 1"] == ("offered to the peer", "a request waits for it")
    request.approve()
    pending.result(10)
    until(lambda: reasons(owner)["x, revision 1"] == ("offered to the peer",))
    found: Any = pointer(scientist, "x")
    assert found.mock.shape == (100_000,)
    assert reasons(scientist)["mock of x, revision 1"] == ("the peer shares it", "a pointer holds it")
    asset.unshare()
    until(lambda: "x" not in scientist.store)
    assert reasons(owner) == {}
    until(lambda: reasons(scientist)["mock of x, revision 1"] == ("a pointer holds it",))
    del found
    until(lambda: gc.collect() >= 0 and "mock of x, revision 1" not in reasons(scientist))


def test_what_went_over_a_network_is_compared_with_until_it_is_unshared(make_duets: MakeDuets) -> None:
    owner, scientist = make_duets(only=("tcp",))
    asset = owner.share(np.arange(100_000.0), "x")
    assert len(granted(owner, scientist, "x")) == 100_000
    compared = "the peer has it: the next version is compared with it"
    until(lambda: reasons(owner) == {"x, revision 1": ("offered to the peer", compared)})
    newer = owner.share(np.arange(100_000.0) + 1, "x")
    until(lambda: pointer(scientist, "x").revision == 2)
    assert reasons(owner) == {
        "x, revision 1": (compared,),
        "x, revision 2": ("offered to the peer",),
    }
    assert len(granted(owner, scientist, "x")) == 100_000
    until(lambda: reasons(owner) == {"x, revision 2": ("offered to the peer", compared)})
    asset.unshare()  # which is no longer offered
    newer.unshare()
    assert reasons(owner) == {}


def test_the_status_shows_itself_as_a_table(duets: DuetPair) -> None:
    owner, _ = duets
    owner.share([1, 2], "<b>")
    status = owner.status()
    assert (status.state, [held.descriptors for held in status.held]) == ("connected", [0])
    assert "descriptors open" in repr(status)
    assert "offered to the peer" in repr(status)
    assert "&lt;b&gt;, revision 1" in status._repr_html_()
