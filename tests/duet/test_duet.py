"""What two people do with a duet, through the public API, both sides in one process."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import gc
import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import duetlink
from duetlink import errors
from duetlink.compute.worker.kernel import rooms
from duetlink.duet.answering.programs import Programs
from duetlink.duet.asking.pointers.pointer import Pointer, ReceivedObject
from duetlink.duet.asking.requests.pending_request import PendingRequest
from duetlink.duet.duet import Duet
from duetlink.duet.store import Asset
from duetlink.net.flight.body import Outgoing
from duetlink.net.paths.local import LocalPath
from duetlink.testing.faults import life_of, run_inside

Pair = tuple[Duet, Duet]


def answering(owner: Duet, answer: Callable[[Any], None], times: int = 1) -> threading.Thread:
    """The owner at their own keyboard: answers requests as they come."""

    def work() -> None:
        # the peer may have what it wants, and its test have closed both, before the answer returns
        with contextlib.suppress(errors.LinkClosed, concurrent.futures.CancelledError):
            for _ in range(times):
                answer(owner.wait_request(20))

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def until(condition: Callable[[], bool]) -> None:
    """Wait for a push to arrive; bounded by the test's own timeout."""
    while not condition():
        threading.Event().wait(0.005)


def pointer(scientist: Duet, name: str) -> Pointer:
    until(lambda: name in scientist.store)
    found = scientist.store[name]
    assert isinstance(found, Pointer)
    return found


# -- pairing -----------------------------------------------------------------------------------------------


def test_both_sides_see_the_same_verifier_and_each_others_name(duets: Pair) -> None:
    owner, scientist = duets
    assert owner.state == scientist.state == "connected"
    assert owner.verifier == scientist.verifier
    assert len(str(owner.verifier).split("-")) == 3
    assert (owner.peer, scientist.peer) == ("Sven", "Olga")
    assert (owner.role, scientist.role) == ("owner", "scientist")


# -- the store ---------------------------------------------------------------------------------------------


def test_a_share_appears_at_the_peer_without_its_content(duets: Pair) -> None:
    owner, scientist = duets
    owner.share(np.arange(6.0).reshape(2, 3), "x", description="six numbers", tags=["demo", "tiny"])
    found = pointer(scientist, "x")
    assert (found.name, found.kind, found.detail) == ("x", "numpy.ndarray", "float64 (2, 3)")
    assert (found.description, found.tags) == ("six numbers", ("demo", "tiny"))
    assert found.revision == 1
    assert list(scientist.store) == ["x"]
    assert len(scientist.store) == 1
    assert scientist.statistics().received_bytes == 0


def test_a_share_before_anyone_has_joined_appears_when_they_do(make_duets: Any) -> None:
    with duetlink.launch() as owner:
        owner.share([1, 2, 3], "early")
        assert owner.state == "waiting"
        with duetlink.join(str(owner.code)) as scientist:
            answering(owner, lambda request: request.approve())
            assert pointer(scientist, "early").get() == [1, 2, 3]


def test_a_thousand_shares_before_anyone_has_joined_are_listed_when_join_returns() -> None:
    with duetlink.launch() as owner:
        for number in range(1000):
            owner.share(number, f"number {number}")
        with duetlink.join(str(owner.code)) as scientist:
            assert len(scientist.store) == 1000


def test_an_unshared_object_disappears(duets: Pair) -> None:
    owner, scientist = duets
    asset = owner.share(1, "gone")
    stale = pointer(scientist, "gone")
    asset.unshare()
    until(lambda: "gone" not in scientist.store)
    with pytest.raises(errors.AssetNotFound, match="'gone' is not shared"):
        stale.get()


def test_an_unknown_name_is_a_key_error_that_lists_what_there_is(duets: Pair) -> None:
    owner, _ = duets
    owner.share(1, "one")
    with pytest.raises(KeyError, match=r"no 'two'; it has 'one'"):
        owner.store["two"]


def test_an_object_that_cannot_travel_is_refused_at_once(duets: Pair) -> None:
    owner, _ = duets
    with pytest.raises(TypeError, match="object"):
        owner.share(object(), "thing")
    assert len(owner.store) == 0


@pytest.mark.parametrize("name", ["", "n" * 201, 3])
def test_a_bad_name_is_refused(duets: Pair, name: Any) -> None:
    with pytest.raises(ValueError, match="name"):
        duets[0].share(1, name)


def test_both_sides_may_share(duets: Pair) -> None:
    owner, scientist = duets
    scientist.share("hers", "note")
    until(lambda: "note" in owner.store)
    answering(scientist, lambda request: request.approve())
    assert owner.store["note"].get() == "hers"
    assert isinstance(scientist.store["note"], Asset)


# -- requests ----------------------------------------------------------------------------------------------


def test_a_function_gets_a_frame_with_a_column_called_name(duets: Pair) -> None:
    owner, scientist = duets
    owner.share(pd.DataFrame({"name": ["Ada"], "revision": [7]}), "x", mock="auto")

    @scientist.remote
    def rows(frame: Any) -> int:
        return len(frame)

    pending = rows(scientist.wait_object("x", 10)).submit("to count")
    request = owner.wait_request(30)
    assert request.asset.lineage is not None
    assert request.asset.lineage.assets == (("x", 1),)
    pending.withdraw()


def test_an_approved_request_brings_the_value_and_leaves_the_object(duets: Pair) -> None:
    owner, scientist = duets
    array = np.arange(1_000_000.0)
    owner.share(array, "x")
    answering(owner, lambda request: request.approve())
    value = pointer(scientist, "x").get(reason="please")
    assert np.array_equal(value, array)
    value[:] = 0
    assert array[1] == 1
    (request,) = owner.requests
    assert (request.state, request.reason, request.peer, request.number) == ("approved", "please", "Sven", 0)
    assert "x" in owner.store


def test_a_grant_holds_for_the_next_time(duets: Pair) -> None:
    owner, scientist = duets
    owner.share(np.ones(50_000), "x")
    answering(owner, lambda request: request.approve())
    first = pointer(scientist, "x").get()
    second = pointer(scientist, "x").get(timeout_s=10)
    first[0] = 9
    assert second[0] == 1
    (request,) = owner.requests
    assert (request.state, request.times) == ("approved", 2)


def test_a_denial_is_an_exception_with_the_owners_words(duets: Pair) -> None:
    owner, scientist = duets
    owner.share(1, "x")
    answering(owner, lambda request: request.deny("not for this study"))
    with pytest.raises(errors.RequestDenied, match="not for this study") as caught:
        pointer(scientist, "x").get(reason="curious")
    assert caught.value.reason == "not for this study"
    assert isinstance(caught.value, PermissionError)


def test_no_answer_in_time_is_an_exception_and_withdraws_the_request(duets: Pair) -> None:
    owner, scientist = duets
    owner.share(1, "x")
    with pytest.raises(TimeoutError, match=r"within 0.05 s"):
        pointer(scientist, "x").get(timeout_s=0.05)
    until(lambda: owner.requests[0].state == "withdrawn")
    with pytest.raises(errors.RequestAnswered, match="is withdrawn"):
        owner.requests[0].approve()


def test_a_request_that_does_not_wait(duets: Pair) -> None:
    owner, scientist = duets
    owner.share({"a": 1}, "x")
    pending = pointer(scientist, "x").request("later")
    assert isinstance(pending, PendingRequest)
    request = owner.wait_request(10)
    until(lambda: pending.state == "pending")
    with pytest.raises(errors.RequestTimeout):
        pending.result(0.01)
    assert pending.state == "pending"
    request.approve()
    assert pending.result(10) == {"a": 1}
    assert pending.state == "complete"


async def test_a_request_can_be_awaited_at_top_level(duets: Pair) -> None:
    owner, scientist = duets
    owner.share("value", "x")
    pending = pointer(scientist, "x").request()
    answering(owner, lambda request: request.approve())
    assert await asyncio.wait_for(pending, 10) == "value"


def test_a_withdrawn_request_cannot_be_waited_for(duets: Pair) -> None:
    owner, scientist = duets
    owner.share(1, "x")
    pending = pointer(scientist, "x").request()
    owner.wait_request(10)
    pending.withdraw()
    with pytest.raises(errors.RequestWithdrawn):
        pending.result(5)
    until(lambda: owner.requests[0].state == "withdrawn")


def test_one_approval_answers_every_request_for_the_same_revision(duets: Pair) -> None:
    owner, scientist = duets
    owner.share(np.arange(100_000), "x")
    one, two = (pointer(scientist, "x").request(str(number)) for number in range(2))
    until(lambda: len(owner.requests.pending) == 2)
    owner.requests[0].approve()
    assert np.array_equal(one.result(10), two.result(10))


def test_a_new_revision_denies_requests_for_the_old_and_needs_a_new_yes(duets: Pair) -> None:
    owner, scientist = duets
    owner.share("old", "x")
    answering(owner, lambda request: request.approve())
    old = pointer(scientist, "x")
    assert old.get() == "old"
    owner.share("new", "x")
    until(lambda: scientist.store["x"].revision == 2)
    with pytest.raises(errors.AssetChanged, match="revision 2"):
        old.get()
    pending = pointer(scientist, "x").request()
    owner.wait_request(10)
    owner.share("newest", "x")
    with pytest.raises(errors.RequestDenied, match="shared again"):
        pending.result(10)


def test_an_object_placed_in_shared_memory_before_a_change_leaves_as_it_was_shared(
    duets: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, scientist = duets
    placed, prepare = threading.Event(), LocalPath.prepare

    async def note(path: LocalPath, outgoing: Outgoing) -> None:
        await prepare(path, outgoing)
        placed.set()

    monkeypatch.setattr(LocalPath, "prepare", note)
    array = np.zeros(100_000)
    owner.share(array, "x")
    assert placed.wait(10)
    array[:] = 1
    answering(owner, lambda request: request.approve())
    assert np.all(pointer(scientist, "x").get(timeout_s=10) == 0)


def test_an_object_changed_in_place_after_sharing_does_not_leave(make_duets: Any) -> None:
    owner, scientist = make_duets(prepare_limit_bytes=1)
    array = np.zeros(1_000_000)
    owner.share(array, "x")
    run_inside(owner, life_of(owner).catalogue.mine["x"].content.outgoing())
    array[5] = 1
    told: list[BaseException] = []

    def approve(request: Any) -> None:
        with pytest.raises(errors.AssetChanged) as caught:
            request.approve()
        told.append(caught.value)

    thread = answering(owner, approve)
    with pytest.raises(errors.RequestDenied, match="share it again"):
        pointer(scientist, "x").get(timeout_s=10)
    thread.join(10)
    assert len(told) == 1
    assert owner.requests[0].state == "denied"


def test_an_object_dropped_by_the_owner_still_leaves(duets: Pair) -> None:
    owner, scientist = duets
    owner.share(np.full(500_000, 3.0), "x")
    gc.collect()
    answering(owner, lambda request: request.approve())
    assert np.all(pointer(scientist, "x").get() == 3.0)


def test_two_gets_of_one_asset_at_once(duets: Pair) -> None:
    owner, scientist = duets
    array = np.arange(2_000_000)
    owner.share(array, "x")
    answering(owner, lambda request: request.approve())
    found = pointer(scientist, "x")
    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(found.get(timeout_s=20))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(results) == 2
    assert all(np.array_equal(result, array) for result in results)
    assert not np.shares_memory(results[0], results[1])


def test_too_many_pending_requests_are_refused(make_duets: Any) -> None:
    owner, scientist = make_duets(max_pending_requests=2)
    owner.share(1, "x")
    found = pointer(scientist, "x")
    for reason in ("one", "two"):
        found.request(reason)
    with pytest.raises(errors.LocalProtocolError, match="2 requests are waiting"):
        found.get(timeout_s=10)


def test_waiting_for_a_request_that_does_not_come(duets: Pair) -> None:
    with pytest.raises(errors.RequestTimeout, match=r"within 0.05 s"):
        duets[0].wait_request(0.05)


def test_an_interrupt_withdraws_what_was_asked(duets: Pair) -> None:
    owner, scientist = duets
    owner.share(1, "x")
    found = pointer(scientist, "x")
    main = threading.main_thread().ident
    assert main is not None

    def press_stop() -> None:
        owner.wait_request(10)
        signal.pthread_kill(main, signal.SIGINT)

    presser = threading.Thread(target=press_stop)
    presser.start()
    with pytest.raises(KeyboardInterrupt):
        found.get()
    presser.join(10)
    until(lambda: owner.requests[0].state == "withdrawn")


def test_there_is_no_request_of_that_number(duets: Pair) -> None:
    with pytest.raises(IndexError, match="0 have arrived"):
        duets[0].requests[0]


# -- sending -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_what_is_sent_is_there_when_send_returns(duets: Pair, size: int) -> None:
    owner, scientist = duets
    weights = np.arange(size, dtype=np.float32)
    scientist.send(weights, "model", description="after 10 epochs")
    received = owner.store["model"]
    assert isinstance(received, ReceivedObject)
    assert received.description == "after 10 epochs"
    assert np.array_equal(received.get(), weights)


def test_more_than_the_peer_takes_is_refused_and_nothing_is_kept(make_duets: Any) -> None:
    owner, scientist = make_duets(max_received_bytes=1_000_000)
    scientist.send(np.zeros(100_000), "fits")
    with pytest.raises(errors.ValueRefused, match=r"at most 1000000 bytes in all"):
        scientist.send(np.zeros(100_000), "too much")
    assert list(owner.store) == ["fits"]
    scientist.send(np.zeros(110_000), "fits")  # replaces, and so fits


# -- what is shown -----------------------------------------------------------------------------------------


def test_peers_words_are_escaped_in_html_and_made_visible_in_text(duets: Pair) -> None:
    owner, scientist = duets
    owner.share(1, "<script>alert(1)</script>", description="evil \u202e order\x1b[31m")
    until(lambda: len(scientist.store) == 1)
    page, text = scientist.store._repr_html_(), repr(scientist.store)
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "\u202e" not in page + text
    assert "\x1b" not in page + text


def test_everything_has_a_text_and_an_html_form(duets: Pair) -> None:
    owner, scientist = duets
    owner.share(1, "x")
    pending = pointer(scientist, "x").request("why")
    owner.wait_request(10)
    things = (owner, scientist.store, scientist.store["x"], owner.store["x"], owner.requests)
    for thing in (*things, owner.requests[0], pending):
        assert "x" in repr(thing) or "duetlink" in repr(thing)
        assert "<div>" in thing._repr_html_()


# -- the end -----------------------------------------------------------------------------------------------


def test_the_peer_learns_of_a_close_with_its_reason(duets: Pair) -> None:
    owner, scientist = duets
    owner.close("lunch")
    until(lambda: scientist.state.startswith("closed"))
    assert "the peer closed the link: lunch" in scientist.state
    with pytest.raises(errors.LinkClosed, match="lunch"):
        scientist.send(1, "x")
    assert owner.state.startswith("closed: this side closed")


def test_waiting_calls_end_with_the_link(duets: Pair) -> None:
    owner, scientist = duets
    owner.share(1, "x")
    pending = pointer(scientist, "x").request()
    owner.wait_request(10)
    owner.close()
    with pytest.raises(errors.LinkClosed):
        pending.result(10)


def test_a_closed_duet_can_still_be_looked_at(duets: Pair) -> None:
    owner, _ = duets
    owner.share(1, "x")
    owner.close()
    owner.close()
    assert "x" in repr(owner.store)
    assert owner.statistics().state == "closed"
    assert "closed" in repr(owner)
    with pytest.raises(errors.LinkClosed, match="closed"):
        owner.share(2, "y")


def test_a_certain_revision_is_waited_for(duets: Pair) -> None:
    owner, scientist = duets
    owner.share(1, "x")
    assert scientist.wait_object("x", 10).revision == 1
    with pytest.raises(errors.AssetNotFound, match="has shared no revision 2 of 'x'"):
        scientist.wait_object("x", 0.05, revision=2)
    owner.share(2, "x")
    assert scientist.wait_object("x", 10, revision=2).revision == 2


def test_the_owner_sees_the_mock_that_the_peer_has(duets: Pair) -> None:
    owner, _ = duets
    bare, mocked = owner.share(1, "bare"), owner.share([1.5, 2.5], "mocked", mock=[0.0, 0.0, 0.0])
    assert bare.mock is None
    assert mocked.mock == [0.0, 0.0, 0.0]
    assert owner.store["mocked"].mock == [0.0, 0.0, 0.0]
    owner.share(2, "mocked")
    assert mocked.mock is None  # of a revision that is no more


# -- rooms -------------------------------------------------------------------------------------------------

EXPECT = Programs.expect  # which no other test has


def test_a_room_is_made_ready_while_the_owner_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Programs, "expect", EXPECT)
    warmed: list[str] = []
    monkeypatch.setattr(rooms, "warm", lambda: warmed.append("now"))
    with duetlink.launch() as owner:
        owner.share([1, 2], "early", mock=[0, 0])
        assert warmed == []  # nobody is there who could want it
        with duetlink.join(str(owner.code)):
            owner.wait_connected(20)
            assert warmed == ["now"]
            owner.share([1, 2], "bare")
            assert warmed == ["now"]
            owner.share([1, 2], "late", mock=[0, 0])
            assert warmed == ["now", "now"]
