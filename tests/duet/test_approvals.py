"""An approval that something comes in between: it is given up, or withdrawn, while it is recorded."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import duetlink
from duetlink import Duet
from duetlink.duet.answering.requests import Request
from duetlink.duet.asking.requests.pending_request import PendingRequest
from duetlink.testing.faults import incoming_of, life_of, start_inside

Pair = tuple[Duet, Duet]


class Held:
    """The audit log, which writes no release before it is let go."""

    def __init__(self, owner: Duet, monkeypatch: pytest.MonkeyPatch) -> None:
        recorder = life_of(owner).recorder
        self._let_out = recorder.let_out
        self.reached, self.go = threading.Event(), threading.Event()
        monkeypatch.setattr(recorder, "let_out", self.let_out)

    async def let_out(self, *entries: Any, transfer: Any) -> None:
        self.reached.set()
        await asyncio.to_thread(self.go.wait, 20)
        await self._let_out(*entries, transfer=transfer)


def until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline_s
        threading.Event().wait(0.01)


def asked(owner: Duet, scientist: Duet) -> tuple[PendingRequest, Request]:
    owner.share([1, 2, 3], "numbers")
    pending = scientist.wait_object("numbers", 10).request("to count")
    return pending, owner.wait_request(10)


def test_an_approval_that_is_given_up_leaves_the_request_pending(
    duets: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, scientist = duets
    held = Held(owner, monkeypatch)
    pending, request = asked(owner, scientist)
    approving = start_inside(owner, life_of(owner).inbox.approve(incoming_of(request)))
    assert held.reached.wait(10)
    assert request.state == "approved"
    approving.cancel()
    until(lambda: request.state == "pending")
    held.go.set()
    request.approve()
    assert pending.result(10) == [1, 2, 3]


def test_what_is_withdrawn_while_its_release_is_recorded_does_not_leave(
    duets: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, scientist = duets
    held = Held(owner, monkeypatch)
    pending, request = asked(owner, scientist)
    owner_adds = threading.Thread(target=owner.policies.add, args=(duetlink.Policy("approve", name="all"),))
    owner_adds.start()
    assert held.reached.wait(10)
    pending.withdraw()
    scientist.ping()  # the withdrawal was sent before this returns,
    scientist.ping()  # and is there before this returns
    held.go.set()
    owner_adds.join(10)
    assert (request.state, request.by) == ("withdrawn", "")
    assert owner.policies.usage("all") == ""


def test_two_questions_at_once_for_a_result_that_a_policy_grants_again_are_both_answered(
    duets: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, scientist = duets
    owner.policies.add(duetlink.Policy("approve", name="all"))
    owner.share(np.arange(4.0), "x", mock=np.ones(4))
    more = scientist.wait_object("x", 10) + 1
    assert more.get(reason="once").tolist() == [1, 2, 3, 4]

    async def written(*, sync: bool = True) -> None:
        """As with `resume`: what was charged takes a moment to be on the disk."""
        await asyncio.sleep(0.05)

    monkeypatch.setattr(life_of(owner).persistence, "written", written)
    both = [more.request("again"), more.request("again")]
    assert [pending.result(10).tolist() for pending in both] == [[1, 2, 3, 4], [1, 2, 3, 4]]
    assert owner.policies.usage("all").startswith("3 ")
