"""Internal events for observers: one frozen struct for each kind of event.

Each kind is a struct of msgspec and not a dataclass, because a kernel makes all these classes when it starts,
and the class of a struct takes much less time to make. The events and actions of requests and of a group's
membership are structs for the same reason.

Observers only observe: `emit` returns nothing and raises nothing, so no behaviour depends on them. Events are
harmless by the types of their fields: numbers, words of this program's own text, classes of errors without
their messages, and addresses that hide themselves. A field of any other type is shown as withheld, so no
value, no session code and no text of a peer or a user gets into a log through an event.

`logging.getLogger("duetlink")` gets every event, as a record with the attributes `event` and `source`. Events
have the levels INFO and DEBUG, so Python prints none of them unless logging is configured.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
import re
from collections.abc import Callable
from typing import ClassVar

import msgspec

_LOGGER = logging.getLogger("duetlink")
_SOURCES = itertools.count(1)

Shown = str | int | float | None
Listener = Callable[["Event", int], None]


class Word(str):
    """A short name from this program's own text, such as a path's; never one that was read or received."""

    __slots__ = ()


class Address(msgspec.Struct, frozen=True):
    """An IP address or host, shown only to observers that ask for addresses."""

    text: str

    def __str__(self) -> str:
        return "<address>"

    __repr__ = __str__


class Event(msgspec.Struct, frozen=True):
    """One occurrence."""

    level: ClassVar[int] = logging.INFO

    @classmethod
    def name(cls) -> str:
        """Return `path_opened` for `PathOpened`."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    def shown(self, *, addresses: bool = False) -> dict[str, Shown]:
        """Return the fields as values that JSON can hold."""
        return {name: _shown(getattr(self, name), addresses) for name in self.__struct_fields__}

    def __str__(self) -> str:
        return " ".join([self.name(), *(f"{name}={value}" for name, value in self.shown().items())])


# -- the connection --------------------------------------------------------------------------------------


class DuetStateChanged(Event, frozen=True):
    state: Word
    why: type[BaseException] | None = None  # if it has closed


class IceServersChosen(Event, frozen=True):
    """The result of checking STUN and TURN servers before a connection; the peer's servers are lent."""

    configured: int  # addresses
    answering: int
    used: int


class LinkOpened(Event, frozen=True):
    initiator: bool
    together: bool  # both sides are on one machine
    codecs: int  # number of codecs that both sides have


class LinkLost(Event, frozen=True):
    own_absence: bool  # this side slept or was blocked


class ReconnectFailed(Event, frozen=True):
    """One of several attempts to reconnect failed."""

    error: type[BaseException]


class LinkRestored(Event, frozen=True):
    reconnects: int
    after_s: float


class LinkEnded(Event, frozen=True):
    why: type[BaseException]


class EpochBegan(Event, frozen=True):
    """The members of a group have changed."""

    epoch: int
    members: int


class MemberLost(Event, frozen=True):
    """The link to the member at this seat has ended or timed out."""

    seat: int
    why: type[BaseException]


class GroupEnded(Event, frozen=True):
    why: type[BaseException]


# -- paths -----------------------------------------------------------------------------------------------


class PathOpened(Event, frozen=True):
    path: Word
    took_s: float


class PathFailed(Event, frozen=True):
    """A path could not be opened; it will be tried again after `retry_s`."""

    path: Word
    error: type[BaseException]
    took_s: float
    retry_s: float


class PathLost(Event, frozen=True):
    """An open path has broken."""

    path: Word
    error: type[BaseException]


class PathMeasured(Event, frozen=True):
    level: ClassVar[int] = logging.DEBUG

    path: Word
    bytes_per_s: float
    alone: bool  # False if there was other traffic during the measurement


class AddressDialled(Event, frozen=True):
    level: ClassVar[int] = logging.DEBUG

    path: Word
    address: Address
    error: type[BaseException] | None  # None: it answered


# -- transfers -------------------------------------------------------------------------------------------


class TransferBegan(Event, frozen=True):
    number: int
    direction: Word
    size_bytes: int


class TransferPaused(Event, frozen=True):
    number: int
    here: bool
    there: bool


class TransferFinished(Event, frozen=True):
    number: int
    direction: Word
    state: Word
    path: Word
    size_bytes: int
    done_bytes: int
    wire_bytes: int
    took_s: float
    paused_s: float


# -- compression -----------------------------------------------------------------------------------------


class CompressionChanged(Event, frozen=True):
    version: int


class CodecChosen(Event, frozen=True):
    """The tuner's decision `number`; it is emitted again with the measured rate."""

    number: int
    path: Word
    codec: Word
    predicted_bytes_per_s: float | None
    measured_bytes_per_s: float | None


# -- requests and rooms ----------------------------------------------------------------------------------


class PolicyDecided(Event, frozen=True):
    action: Word
    policy: int | None  # its index in the list, from 0; None if none matches


class RequestStepped(Event, frozen=True):
    """A request arrived, or `step` has happened to it and changed its phase to `phase`."""

    level: ClassVar[int] = logging.DEBUG

    number: int
    step: Word
    phase: Word


class RoomStarted(Event, frozen=True):
    desk: Word
    took_s: float


class RoomRefused(Event, frozen=True):
    """No room (child process for a peer's program) could be started."""

    desk: Word
    took_s: float


class RoomEnded(Event, frozen=True):
    desk: Word
    lived_s: float
    limit: bool  # it exceeded its time, memory or processor limit
    killed: bool  # by the system or the user


# -- delivery to observers -------------------------------------------------------------------------------


class Sink:
    """The events of one duet, group or link. `source` is its number in a log."""

    def __init__(self) -> None:
        self.source = next(_SOURCES)
        self._watchers: list[Callable[[], None]] = []

    def emit(self, event: Event) -> None:
        """Emit an event with this source, from any thread."""
        emit(event, self.source)

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` after each change that is visible to the user; return a function that ends this.

        Both may be called from any thread; `callback` is called on the loop thread and must return at once.
        Its exceptions are logged and ignored.
        """
        self._watchers.append(callback)

        def unwatch() -> None:
            with contextlib.suppress(ValueError):  # ended before
                self._watchers.remove(callback)

        return unwatch

    def changed(self) -> None:
        """Call the watchers after a change that is visible to the user. On the loop thread."""
        for callback in list(self._watchers):
            try:
                callback()
            except Exception:
                _LOGGER.exception("a watcher failed")


_listeners: tuple[Listener, ...] = ()


def emit(event: Event, source: int = 0) -> None:
    """Pass an event to all observers, from any thread. Never raises; cheap if there are none."""
    if not _listeners and not _LOGGER.isEnabledFor(event.level):
        return
    for listener in _listeners:
        with contextlib.suppress(Exception):
            listener(event, source)
    with contextlib.suppress(Exception):
        _LOGGER.log(event.level, "%s", event, extra={"event": event, "source": source})


def listen(listener: Listener) -> Callable[[], None]:
    """Call `listener` with each event and its source, on any thread; return a function that ends this."""
    global _listeners
    _listeners = (*_listeners, listener)

    def end() -> None:
        global _listeners
        _listeners = tuple(other for other in _listeners if other is not listener)

    return end


def _shown(value: object, addresses: bool) -> Shown:
    match value:
        case None | bool() | int():
            return value
        case float():
            return round(value, 6) if math.isfinite(value) else str(value)
        case Word():
            return str(value)
        case Address():
            return value.text if addresses else str(value)
        case type() if issubclass(value, BaseException):
            return error_name(value)
        case _:
            return "<withheld>"


def error_name(error: type[BaseException]) -> str:
    """Return the name of the first base class that is Python's or duetlink's: others may be private."""
    ours = (one for one in error.__mro__ if one.__module__.partition(".")[0] in ("builtins", "duetlink"))
    return next(ours).__name__
