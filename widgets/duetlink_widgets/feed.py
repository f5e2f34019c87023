"""What a panel says and hears, on one thread of its own: the only one that writes to the widget.

`changed` and `heard` may come on any thread (the duet's, the kernel's, a subshell's) and only post to it.
Commands block, so each runs on a thread of asyncio's pool. The thread outlives the duet: a page that is
loaded again still gets the history.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, Protocol

from duetlink import Duet
from duetlink.base.runtime.loop import LoopThread
from duetlink.duet.asking.own_requests import OwnRequest
from duetlink.duet.compression import MadeDecision
from duetlink.errors import DuetError, LinkClosed
from duetlink_widgets import snapshot
from duetlink_widgets.commands import run
from duetlink_widgets.contract import (
    HISTORY_COLUMNS,
    SCHEMA,
    TICK_S,
    VISIBLE_LEASE_S,
    Ack,
    Code,
    Decisions,
    History,
    Notice,
    Running,
    Tick,
)
from duetlink_widgets.timeline import Timeline

PUBLISH_S = 0.1  # changes within this time are published together
NOTICE_S = 5.0  # no more than one in this time
_MOST_PAGES = 16
_ANSWERS = ("approved", "complete", "denied")
_MOST_COMMANDS = 32  # at a time


class Outlet(Protocol):
    """Where a feed writes: the widget."""

    def publish(self, states: Mapping[str, dict[str, Any]]) -> None:
        """Set these traits; those that are equal cost nothing."""

    def say(self, message: dict[str, Any], buffer: bytes | None = None) -> None:
        """Send a message to every page."""


class Feed:
    """Follows a duet for an outlet, from construction until `close`."""

    def __init__(self, duet: Duet, outlet: Outlet) -> None:
        self._duet = duet
        self._outlet = outlet
        self._timeline = Timeline(duet.history, lambda: duet.state.startswith("closed"), int(time.time()))
        self._pages: dict[str, float] = {}  # by name: until when it is thought to be on a screen
        self._ticking: asyncio.Task[None] | None = None
        self._commands: set[asyncio.Task[None]] = set()
        self._publishing: asyncio.TimerHandle | None = None
        self._told: dict[tuple[str, int], float | None] = {}  # decisions, and what was measured then
        self._decisions: list[MadeDecision] = []
        self._tuning: dict[str, Any] | None = None
        self._pending: set[int] = set()
        self._waiting: set[int] = set()  # this side's own requests
        self._noticed_s = -NOTICE_S
        self._sequence = itertools.count()
        self._thread = LoopThread("duetlink-panel")
        self._thread.run(self._begin())
        self._unwatch = duet.watch(self.changed)

    # -- from any thread -------------------------------------------------------------------------------------

    def changed(self) -> None:
        """Something of the duet has changed."""
        self._post(self._mark)

    def heard(self, message: Mapping[str, Any]) -> None:
        """A page says something."""
        self._post(self._obey if message.get("kind") == "command" else self._take, message)

    def close(self) -> None:
        """Stop following, and end the thread."""
        self._unwatch()
        self._thread.stop()

    def _post(self, callback: Any, *args: Any) -> None:
        with contextlib.suppress(RuntimeError):  # once this is closed, nobody is there to hear it
            self._thread.loop.call_soon_threadsafe(callback, *args)

    # -- what is published -----------------------------------------------------------------------------------

    async def _begin(self) -> None:
        self._publish()

    def _mark(self) -> None:
        if self._publishing is None:
            self._publishing = asyncio.get_running_loop().call_later(PUBLISH_S, self._publish)

    def _publish(self) -> None:
        if self._publishing is not None:
            self._publishing.cancel()
            self._publishing = None
        self._decisions = snapshot.decisions(self._duet) or self._decisions
        with contextlib.suppress(LinkClosed):  # the last one stays
            self._tuning = snapshot.as_trait(snapshot.tuning_state(self._duet, self._decisions))
        states = {
            "link": snapshot.as_trait(snapshot.link_state(self._duet)),
            "requests": snapshot.as_trait(snapshot.requests_state(self._duet)),
            "asked": snapshot.as_trait(snapshot.asked_state(self._duet)),
            "shared": snapshot.as_trait(snapshot.shared_state(self._duet)),
            "transfers": snapshot.as_trait(snapshot.transfers_state(self._duet)),
        }
        if self._tuning is not None:
            states["tuning"] = self._tuning
        self._outlet.publish(states)
        self._tell_decisions()
        self._notice_requests()
        self._notice_answers()

    def _tell_decisions(self) -> None:
        new = [
            decision
            for decision in self._decisions
            if self._told.get((decision.side, decision.number), -1.0) != decision.measured_bytes_per_s
        ]
        if new:
            self._say_decisions(new, reset=False)
        self._told = {
            (decision.side, decision.number): decision.measured_bytes_per_s for decision in self._decisions
        }

    def _say_decisions(self, decisions: list[MadeDecision], *, reset: bool) -> None:
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
        """Of what has waited for a person: what is answered at once needs no notice."""
        waited, self._waiting = self._waiting, _pending(self._duet.asked)
        for request in self._duet.asked:
            if request.number in waited - self._waiting and request.state in _ANSWERS:
                self._outlet.say(asdict(snapshot.answered(self._duet, request)))

    # -- what is heard ---------------------------------------------------------------------------------------

    def _take(self, message: Mapping[str, Any]) -> None:
        match message.get("kind"):
            case "hello":
                self._greet(message.get("schema"))
            case "visible":
                self._see(message.get("page"), message.get("on"))
            case "poll":
                self._tick()

    def _greet(self, schema: object) -> None:
        """A page begins: tell it everything."""
        if schema != SCHEMA:
            self._outlet.say(
                asdict(Notice("notice", "duetlink was updated: reload this page, and restart the kernel"))
            )
            return
        self._publish()
        if self._duet.state == "waiting" and self._duet.code:
            self._outlet.say(asdict(_code(self._duet)))
        history = History("history", SCHEMA, self._timeline.epoch_s, list(HISTORY_COLUMNS))
        self._outlet.say(asdict(history), self._timeline.all_rows())
        self._say_decisions(self._decisions, reset=True)
        self._tick()

    def _see(self, page: object, on: object) -> None:
        """A page shows the panel, or no longer does; tick while any does."""
        if not isinstance(page, str) or (len(self._pages) >= _MOST_PAGES and page not in self._pages):
            return
        if on is True:
            self._pages[page] = time.monotonic() + VISIBLE_LEASE_S
        else:
            self._pages.pop(page, None)
        if self._pages and (self._ticking is None or self._ticking.done()):
            self._ticking = asyncio.ensure_future(self._keep_ticking())

    async def _keep_ticking(self) -> None:
        while self._pages:
            self._tick()
            await asyncio.sleep(TICK_S)
            now_s = time.monotonic()
            self._pages = {page: until_s for page, until_s in self._pages.items() if until_s > now_s}

    def _tick(self) -> None:
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

    def _obey(self, message: Mapping[str, Any]) -> None:
        command_id = message.get("command_id")
        if not isinstance(command_id, str) or len(self._commands) >= _MOST_COMMANDS:
            return
        task = asyncio.ensure_future(self._answer(command_id, message.get("name"), message.get("args")))
        self._commands.add(task)
        task.add_done_callback(self._commands.discard)

    async def _answer(self, command_id: str, name: object, args: object) -> None:
        try:
            result = await asyncio.to_thread(run, self._duet, name, args)
        except (DuetError, IndexError) as error:
            ack = Ack("ack", command_id, False, str(error), None)
        except Exception as error:
            # a fault of ours: the person who clicked learns of it, and the panel goes on
            ack = Ack("ack", command_id, False, f"{type(error).__name__}: {error}", None)
        else:
            ack = Ack("ack", command_id, True, "", result)
        self._publish()  # the page has the effect when it has the answer
        self._outlet.say(asdict(ack))


def _pending(requests: Iterable[OwnRequest]) -> set[int]:
    return {request.number for request in requests if request.state == "pending"}


def _code(duet: Duet) -> Code:
    code = duet.code or ""
    expires = duet.code_expires
    return Code(
        "code",
        code,
        f'duet = duetlink.join("{code}")',
        expires.timestamp() if expires is not None else 0.0,
        expires is None,
    )
