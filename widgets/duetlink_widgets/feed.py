"""Follow a duet and write its traits, ticks, decisions and notices to the panel."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

from duetlink import Duet
from duetlink.duet.asking.requests.own_requests import OwnRequest
from duetlink.duet.compression import MadeDecision
from duetlink.errors import LinkClosed
from duetlink_widgets import snapshot
from duetlink_widgets.commands import run
from duetlink_widgets.contract import HISTORY_COLUMNS, SCHEMA, Code, Decisions, History, Running, Tick
from duetlink_widgets.pages import Outlet, Pages
from duetlink_widgets.timeline import Timeline

NOTICE_S = 5.0  # at most one notice in this time
_ANSWERS = ("approved", "complete", "denied")


class Feed(Pages):
    """Follows a duet for an outlet, from construction until `close`."""

    def __init__(self, duet: Duet, outlet: Outlet) -> None:
        super().__init__(outlet)
        self._duet = duet
        self._timeline = Timeline(duet.history, lambda: duet.state.startswith("closed"), int(time.time()))
        self._sent: dict[tuple[str, int], float | None] = {}  # decisions, and what was measured then
        self._decisions: list[MadeDecision] = []
        self._tuning: dict[str, Any] | None = None
        self._pending: set[int] = set()
        self._waiting: set[int] = set()  # this side's own requests
        self._noticed_s = -NOTICE_S
        self._sequence = itertools.count()
        self._new_code: str | None = None
        self.begin()
        self._unwatch = duet.watch(self.changed)

    def close(self) -> None:
        self._unwatch()
        super().close()

    def _run(self, name: object, args: object) -> Any:
        return run(self._duet, name, args)

    def _publish_now(self) -> None:
        self._attempt("the code", self._send_code)  # before the page shows that there is a code
        self._decisions = self._attempt("what was decided", self._latest_decisions) or self._decisions
        made = {name: self._attempt(name, make) for name, make in self._states().items()}
        self._outlet.publish({name: state for name, state in made.items() if state is not None})
        self._attempt("decisions", self._send_new_decisions)
        self._attempt("notices of requests", self._notice_requests)
        self._attempt("notices of answers", self._notice_answers)

    def _states(self) -> dict[str, Callable[[], dict[str, Any] | None]]:
        """Return a function for each trait. None of them sends a request to the peer, which may not
        answer."""
        duet = self._duet
        return {
            "link": lambda: snapshot.as_trait(snapshot.link_state(duet)),
            "requests": lambda: snapshot.as_trait(snapshot.requests_state(duet)),
            "asked": lambda: snapshot.as_trait(snapshot.asked_state(duet)),
            "shared": lambda: snapshot.as_trait(snapshot.shared_state(duet)),
            "transfers": lambda: snapshot.as_trait(snapshot.transfers_state(duet)),
            "tuning": self._tuning_state,
        }

    def _send_code(self) -> None:
        before, self._new_code = self._new_code, self._duet.code if self._duet.invited else None
        if self._new_code is not None and self._new_code != before:
            self._outlet.say(asdict(_code(self._duet)))

    def _latest_decisions(self) -> list[MadeDecision]:
        return snapshot.decisions(self._duet)

    def _tuning_state(self) -> dict[str, Any] | None:
        with contextlib.suppress(LinkClosed):  # the last one stays
            self._tuning = snapshot.as_trait(snapshot.tuning_state(self._duet, self._decisions))
        return self._tuning

    def _send_new_decisions(self) -> None:
        new = [
            decision
            for decision in self._decisions
            if self._sent.get((decision.side, decision.number), -1.0) != decision.measured_bytes_per_s
        ]
        if new:
            self._send_decisions(new, reset=False)
        self._sent = {
            (decision.side, decision.number): decision.measured_bytes_per_s for decision in self._decisions
        }

    def _send_decisions(self, decisions: list[MadeDecision], *, reset: bool) -> None:
        rows = [snapshot.decision_row(decision) for decision in decisions]
        self._outlet.say(asdict(Decisions("decisions", reset, rows)))

    def _notice_requests(self) -> None:
        pending = {request.number for request in self._duet.requests.pending}
        new, self._pending = pending - self._pending, pending
        if not new or time.monotonic() - self._noticed_s < NOTICE_S:
            return
        self._noticed_s = time.monotonic()
        self._outlet.say(asdict(snapshot.asked(self._duet.requests[max(new)])))

    def _notice_answers(self) -> None:
        """Announce answers to requests that were pending: immediate answers need no notice."""
        waited, self._waiting = self._waiting, _pending(self._duet.asked)
        for request in self._duet.asked:
            if request.number in waited - self._waiting and request.state in _ANSWERS:
                self._outlet.say(asdict(snapshot.answered(self._duet, request)))

    def _send_all(self) -> None:
        if self._duet.code and (self._duet.state == "waiting" or self._duet.invited):
            self._outlet.say(asdict(_code(self._duet)))
        history = History("history", SCHEMA, self._timeline.epoch_s, list(HISTORY_COLUMNS))
        self._outlet.say(asdict(history), self._timeline.all_rows())
        self._send_decisions(self._decisions, reset=True)

    def _tick(self) -> None:
        if any(request.state == "running" for request in self._duet.requests):  # its elapsed time changes
            self._publish_trait("requests")
        if self._duet.gives_up_in_s is not None:  # so does the time until it gives up
            self._publish_trait("link")
        now = self._duet.statistics()
        running = [
            Running(
                transfer.number,
                transfer.done_bytes,
                transfer.wire_bytes,
                transfer.path,
                transfer.duration_s,
            )
            for transfer in now.transfers
            if transfer.state == "running"
        ]
        tick = Tick(
            "tick",
            next(self._sequence),
            now.sent_bytes_per_s,
            now.received_bytes_per_s,
            now.sent_wire_bytes_per_s,
            now.received_wire_bytes_per_s,
            now.round_trip_s,
            running,
        )
        self._outlet.say(asdict(tick), self._timeline.new_rows())

    def _publish_trait(self, name: str) -> None:
        if (state := self._attempt(name, self._states()[name])) is not None:
            self._outlet.publish({name: state})


def _pending(requests: Iterable[OwnRequest]) -> set[int]:
    return {request.number for request in requests if request.state == "pending"}


def _code(duet: Duet) -> Code:
    code = duet.code or ""
    expires = duet.code_expires
    return Code(
        "code",
        code,
        f"duet = duetlink.join('{code}')",  # so that it may be pasted between double quotes as well
        expires.timestamp() if expires is not None else 0.0,
        expires is None,
    )
