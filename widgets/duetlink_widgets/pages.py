"""The base of all feeds: a thread that alone writes to the widget, visible pages, and commands.

`changed` and `heard` may be called on any thread (the duet's, the kernel's, a subshell's) and only post to
it. Commands block, so each runs on a thread of asyncio's pool. The thread outlives the duet or group: a page
that is loaded again still gets the full state.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Protocol, TypeVar

from duetlink.base.runtime.loop import LoopThread
from duetlink.errors import DuetError
from duetlink_widgets.contract import SCHEMA, TICK_S, VISIBLE_LEASE_S, Ack, Notice

PUBLISH_S = 0.1  # changes within this time are published together
_MOST_PAGES = 16
_MOST_COMMANDS = 32  # at a time

_log = logging.getLogger(__name__)

T = TypeVar("T")


class Outlet(Protocol):
    """The widget, as a feed writes to it."""

    def publish(self, states: Mapping[str, dict[str, Any]]) -> None:
        """Set these traits; equal values cost nothing."""

    def say(self, message: dict[str, Any], buffer: bytes | None = None) -> None:
        """Send a message to every page."""


class Pages(ABC):
    """Follows a duet or group, from `begin` until `close`."""

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet
        self._visible_until: dict[
            str, float
        ] = {}  # by name of a page: the time until which it counts as visible
        self._ticking: asyncio.Task[None] | None = None
        self._commands: set[asyncio.Task[None]] = set()
        self._failing: set[str] = set()  # parts that could not be shown the last time
        self._publishing: asyncio.TimerHandle | None = None
        self._thread = LoopThread("duetlink-panel")

    # -- for subclasses ------------------------------------------------------------------------------------

    @abstractmethod
    def _publish_now(self) -> None:
        """Set the traits, and send news."""

    @abstractmethod
    def _send_all(self) -> None:
        """Send a new page everything that is in no trait."""

    @abstractmethod
    def _tick(self) -> None:
        """Send the values that change all the time."""

    @abstractmethod
    def _run(self, name: object, args: object) -> Any:
        """Run a command, which may block; return its result."""

    # -- from any thread -----------------------------------------------------------------------------------

    def begin(self) -> None:
        """Set the traits for the first time."""
        self._thread.run(self._begin())

    def changed(self) -> None:
        """Publish the state soon."""
        self._post(self._schedule_publish)

    def heard(self, message: Mapping[str, Any]) -> None:
        """Handle a message from a page."""
        self._post(self._start_command if message.get("kind") == "command" else self._handle, message)

    def close(self) -> None:
        """Stop following, and end the thread."""
        self._thread.stop()

    def _post(self, callback: Any, *args: Any) -> None:
        with contextlib.suppress(RuntimeError):  # after `close` there is no loop to post to
            self._thread.loop.call_soon_threadsafe(callback, *args)

    # -- on its thread -------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        self._publish()

    def _schedule_publish(self) -> None:
        if self._publishing is None:
            self._publishing = asyncio.get_running_loop().call_later(PUBLISH_S, self._publish)

    def _publish(self) -> None:
        if self._publishing is not None:
            self._publishing.cancel()
            self._publishing = None
        self._attempt("what has changed", self._publish_now)

    def _attempt(self, what: str, make: Callable[[], T]) -> T | None:
        """Return the result of `make`; None if it raises.

        One failing part stops no other part. Its first failure is logged and shown on the page.
        """
        try:
            made = make()
        except Exception:
            if what not in self._failing:
                self._failing.add(what)
                _log.exception("the panel cannot show %s", what)
                with contextlib.suppress(Exception):  # the connection to the page may be the part that failed
                    text = f"the panel cannot show {what}; the kernel's log says why, and the duet goes on"
                    self._outlet.say(asdict(Notice("notice", text)))
            return None
        self._failing.discard(what)
        return made

    def _handle(self, message: Mapping[str, Any]) -> None:
        match message.get("kind"):
            case "hello":
                self._greet(message.get("schema"))
            case "visible":
                self._set_visible(message.get("page"), message.get("on"))
            case "poll":
                self._attempt("what moves", self._tick)

    def _greet(self, schema: object) -> None:
        if schema != SCHEMA:
            self._outlet.say(
                asdict(Notice("notice", "duetlink was updated: reload this page, and restart the kernel"))
            )
            return
        self._publish()
        self._attempt("the history", self._send_all)
        self._attempt("what moves", self._tick)

    def _set_visible(self, page: object, on: object) -> None:
        """Record that a page shows or hides the panel; tick while any page shows it."""
        if not isinstance(page, str) or (
            len(self._visible_until) >= _MOST_PAGES and page not in self._visible_until
        ):
            return
        if on is True:
            self._visible_until[page] = time.monotonic() + VISIBLE_LEASE_S
        else:
            self._visible_until.pop(page, None)
        if self._visible_until and (self._ticking is None or self._ticking.done()):
            self._ticking = asyncio.ensure_future(self._keep_ticking())

    async def _keep_ticking(self) -> None:
        while self._visible_until:
            self._attempt("what moves", self._tick)
            await asyncio.sleep(TICK_S)
            now_s = time.monotonic()
            self._visible_until = {
                page: until_s for page, until_s in self._visible_until.items() if until_s > now_s
            }

    def _start_command(self, message: Mapping[str, Any]) -> None:
        command_id = message.get("command_id")
        if not isinstance(command_id, str) or len(self._commands) >= _MOST_COMMANDS:
            return
        task = asyncio.ensure_future(self._answer(command_id, message.get("name"), message.get("args")))
        self._commands.add(task)
        task.add_done_callback(self._commands.discard)

    async def _answer(self, command_id: str, name: object, args: object) -> None:
        ack = Ack("ack", command_id, False, "the panel was closed before this was done", None)
        try:
            result = await asyncio.to_thread(self._run, name, args)
            ack = Ack("ack", command_id, True, "", result)
        except asyncio.CancelledError:
            raise
        except (DuetError, IndexError) as error:
            ack = Ack("ack", command_id, False, str(error), None)
        except BaseException as error:
            # a defect, or a library's panic, which is no Exception: report it to the user who clicked
            ack = Ack("ack", command_id, False, f"{type(error).__name__}: {error}", None)
        finally:
            self._publish()  # so that the page has the effect before the answer
            if not self._attempt("an answer", lambda: self._acknowledge(ack)):
                words = "the command has ended, but its result cannot be shown"
                unsaid = Ack("ack", command_id, False, words, None)
                self._attempt("that an answer is missing", lambda: self._acknowledge(unsaid))

    def _acknowledge(self, ack: Ack) -> bool:
        self._outlet.say(asdict(ack))
        return True
