"""Opens all paths of one link, keeps them open, measures them, and chooses the best one.

The order of the list is the preference, and measured speed corrects it: a path further down is chosen if it
is known to be FASTER times as fast. A path that fails is tried again after a pause that doubles from
RETRY_FIRST_S to RETRY_LAST_S, so that a better path comes back in the background. If a transfer waits for a
path, or the network has changed, it is tried again soon.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from duetlink.base.events import PathFailed, PathLost, PathMeasured, PathOpened, Sink, Word
from duetlink.errors import DuetError, PathUnavailable
from duetlink.net.flight.body import Outgoing
from duetlink.net.paths.base import OPEN_TIMEOUT_S, Path

RETRY_FIRST_S = 1.0
RETRY_LAST_S = 60.0
RETRY_WANTED_S = 2.0  # the longest pause while a transfer waits for a path
RETRY_AT_ONCE_S = 0.25  # the pause after the network has changed

# how long a transfer waits while every path is down; shorter if none of them has ever been up
GRACE_S = 30.0
GRACE_NEVER_UP_S = 10.0

FASTER = 2.0
FASTER_RELAY = 4.0  # higher, because relayed bytes cost the server's operator

OPENING, UP, DOWN, IDLE = "opening", "up", "down", "idle"
UNKNOWN = "unknown"  # the state that is shown for an open path while the peer is out of reach


@dataclass(frozen=True, slots=True)
class PathStatus:
    """One path, for a person.

    `why` says why it is down. `bytes_per_s` is its last measured speed; with `at_least`, it was measured
    while other transfers ran, so the path may be faster. `loss` is the share of packets that this side lost
    in the last seconds, if the path knows.
    """

    name: str
    state: str
    why: str = ""
    bytes_per_s: float | None = None
    at_least: bool = False
    loss: float | None = None

    def out_of_reach(self) -> PathStatus:
        """Return the status to show while the peer is out of reach: an open path becomes UNKNOWN."""
        if self.state != UP:
            return self
        return dataclasses.replace(self, state=UNKNOWN, why="the peer is out of reach", loss=None)


@dataclass(frozen=True, slots=True)
class Speed:
    """The measured speed of a path; `alone` if no other transfer ran."""

    bytes_per_s: float
    alone: bool


class PathSelector:
    """Opens paths and keeps them open. Methods belong to the loop thread.

    `measure` returns the speed of a path, or None if it cannot. `sink` receives the events of all paths.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        sink: Sink,
        measure: Callable[[Path], Awaitable[Speed | None]] | None = None,
    ) -> None:
        self._sink = sink
        self._paths = {path.name: path for path in paths}
        self._status = {name: PathStatus(name, OPENING) for name in self._paths}
        self._measure = measure
        self._measuring: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._hurry = asyncio.Event()
        self._openers: dict[str, asyncio.Task[None]] = {}
        self._ever_up: set[str] = set()
        self._waiting = 0
        self.paused = False
        self._closed = False

    def start(self) -> None:
        for name in self._paths:
            self._open(name, 0.0)

    def statuses(self) -> tuple[PathStatus, ...]:
        return tuple(
            dataclasses.replace(status, loss=self._paths[status.name].loss)
            for status in list(self._status.values())
        )

    def named(self, name: str) -> Path:
        """Return the path of that name. Raises PathUnavailable if this side does not allow it."""
        try:
            return self._paths[name]
        except KeyError:
            raise PathUnavailable(
                f"path {name[:40]!r} is not allowed on this side; it allows {', '.join(self._paths)}"
            ) from None

    async def prepare(self, outgoing: Outgoing) -> None:
        """Let every path prepare a body that may be asked for."""
        for path in self._paths.values():
            with contextlib.suppress(DuetError):  # `offer` will raise it again
                await path.prepare(outgoing)

    # -- the choice ----------------------------------------------------------------------------------------

    @property
    def best(self) -> Path | None:
        """The path to use now; None if none is up."""
        return self._best(())

    def _best(self, avoid: Mapping[str, str] | tuple[()]) -> Path | None:
        best: PathStatus | None = None
        for status in self._status.values():
            if status.state == UP and status.name not in avoid and (best is None or _faster(status, best)):
                best = status
        return self._paths[best.name] if best is not None else None

    async def wait_best(self, avoid: Mapping[str, str], grace_s: float | None = None) -> Path:
        """Return the best path that is up and not in `avoid` (name -> reason); wait until there is one.

        Raises:
            PathUnavailable: all others were down for `grace_s`; the message gives the reason for each.
        """
        self._waiting += 1
        self._hurry.set()
        try:
            while True:
                best = self._best(avoid)
                if best is not None:
                    return best
                try:
                    async with asyncio.timeout(self._patience_s(avoid, grace_s)):
                        await self._changed.wait()
                except TimeoutError:
                    whys = {status.name: status.why for status in self._status.values()} | dict(avoid)
                    reasons = "; ".join(f"{name}: {why}" for name, why in whys.items())
                    raise PathUnavailable(f"no path to the peer works ({reasons})") from None
        finally:
            self._waiting -= 1

    def _patience_s(self, avoid: Mapping[str, str], grace_s: float | None) -> float | None:
        eligible = [status for status in self._status.values() if status.name not in avoid]
        if not eligible:
            return 0.0
        if self.paused or any(status.state in (OPENING, IDLE) for status in eligible):
            return None
        if grace_s is not None:
            return grace_s
        return GRACE_S if self._ever_up & {status.name for status in eligible} else GRACE_NEVER_UP_S

    async def wait_settled(self) -> None:
        """Wait until each path has come up, has failed once, or is not needed."""
        while any(status.state == OPENING for status in self._status.values()):
            await self._changed.wait()

    async def wait_measured(self) -> None:
        """Wait until a path is up, and the speed of the best one is known or is not being measured."""
        while (best := self.best) is None or (
            best.measurable
            and self._status[best.name].bytes_per_s is None
            and self._measuring is not None
            and not self._measuring.done()
        ):
            await self._changed.wait()

    async def wait_better_than(self, path: Path, avoid: Mapping[str, str]) -> Path:
        """Wait until a path that is not in `avoid` is up and preferred to `path`; return it."""
        while True:
            best = self._best(avoid)
            if best is not None and best is not path and self._preferred(best, path):
                return best
            await self._changed.wait()

    def _preferred(self, one: Path, other: Path) -> bool:
        first = next(name for name in self._paths if name in (one.name, other.name))
        one_status, other_status = self._status[one.name], self._status[other.name]
        return (
            not _faster(other_status, one_status) if first == one.name else _faster(one_status, other_status)
        )

    # -- speed and failures -------------------------------------------------------------------------------

    def note_speed(self, path: Path, bytes_per_s: float) -> None:
        """Store the speed of a transfer over `path`. If it has dropped by FASTER, measure all paths."""
        if self._measuring is not None and not self._measuring.done():
            return  # the measurement itself slows the transfer
        before = self._status[path.name].bytes_per_s
        self._set(dataclasses.replace(self._status[path.name], bytes_per_s=bytes_per_s, at_least=False))
        if before is not None and bytes_per_s * FASTER < before:
            self._measure_all()

    def mark_down(self, path: Path, error: Exception) -> None:
        """Note that `path` is broken, and open it again in the background."""
        if not self._closed and self._status[path.name].state == UP:
            self._note_lost(path, error)
            self._open(path.name, RETRY_FIRST_S)

    def _note_lost(self, path: Path, error: Exception) -> None:
        self._sink.emit(PathLost(Word(path.name), type(error)))
        self._set(PathStatus(path.name, DOWN, str(error)))

    def hurry(self) -> None:
        """Try the paths that are down now, because the network may have changed."""
        self._hurry.set()

    def pause(self) -> None:
        """Stop all time limits of waiting transfers while the peer is out of reach."""
        self.paused = True

    def resume(self) -> None:
        """Continue after the peer came back, perhaps on another network: try the paths that are down now."""
        self.paused = False
        self.hurry()
        self._announce()

    async def close(self) -> None:
        self._closed = True
        tasks = [*self._openers.values(), *([self._measuring] if self._measuring else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(path.close() for path in self._paths.values()), return_exceptions=True)

    # -- in the background -----------------------------------------------------------------------------------

    def _open(self, name: str, pause_s: float) -> None:
        if name in self._openers:
            self._openers[name].cancel()
        self._openers[name] = asyncio.ensure_future(self._keep_open(name, pause_s))

    async def _keep_open(self, name: str, pause_s: float) -> None:
        """Open one path, retry until it is up, and begin again when it has broken."""
        path = self._paths[name]
        while True:
            await self._pause(pause_s)
            if path.costly:
                await self._wait_needed(name)
            began_s = time.monotonic()
            try:
                async with asyncio.timeout(OPEN_TIMEOUT_S):
                    await path.open()
            except (DuetError, TimeoutError, OSError) as error:
                pause_s = min(max(2 * pause_s, RETRY_FIRST_S), RETRY_LAST_S)
                took_s = time.monotonic() - began_s
                self._sink.emit(PathFailed(Word(name), type(error), took_s, pause_s))
                self._set(PathStatus(name, DOWN, _why_down(error)))
            else:
                self._sink.emit(PathOpened(Word(name), time.monotonic() - began_s))
                self._ever_up.add(name)
                self._set(PathStatus(name, UP))
                self._measure_all()
                self._note_lost(path, await path.wait_down())
                pause_s = RETRY_FIRST_S

    async def _pause(self, pause_s: float) -> None:
        """Wait before the next try; shorter if a transfer waits for a path."""
        await asyncio.sleep(min(pause_s, RETRY_AT_ONCE_S))
        if pause_s <= RETRY_AT_ONCE_S:
            return
        self._hurry.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(pause_s, RETRY_WANTED_S) if self._waiting else pause_s):
                await self._hurry.wait()

    async def _wait_needed(self, name: str) -> None:
        """Wait while `local` is being tried or is up: on one host, no path needs to start processes.

        `local` may take long on a busy host.
        """
        while (local := self._status.get("local")) is not None and local.state in (OPENING, UP):
            if local.state == UP and self._status[name].state != IDLE:
                self._set(PathStatus(name, IDLE, "not needed: both sides are on one host"))
            await self._changed.wait()
        self._set(PathStatus(name, OPENING))

    def _measure_all(self) -> None:
        """Measure all competing paths, for the choice among them and for the senders' tuner."""
        if self._measure is not None and (self._measuring is None or self._measuring.done()):
            self._measuring = asyncio.ensure_future(self._measure_competitors(self._measure))

    async def _measure_competitors(self, measure: Callable[[Path], Awaitable[Speed | None]]) -> None:
        measured: set[str] = set()
        while True:
            up = [self._paths[status.name] for status in self._status.values() if status.state == UP]
            competing = [path for path in up if path.measurable]
            unknown = [path for path in competing if path.name not in measured]
            # no path can beat shared memory
            if not competing or "local" in (path.name for path in up):
                return
            if not unknown:
                if (
                    competing[0] is not self.best
                ):  # one short measurement is not enough to reject the preferred path
                    await self._measure_one(measure, competing[0], better_only=True)
                return
            measured.add(unknown[0].name)
            await self._measure_one(measure, unknown[0])

    async def _measure_one(
        self, measure: Callable[[Path], Awaitable[Speed | None]], path: Path, *, better_only: bool = False
    ) -> None:
        with contextlib.suppress(DuetError):
            speed = await measure(path)
            if speed is None or self._status[path.name].state != UP:
                return
            if not better_only or speed.bytes_per_s > (self._status[path.name].bytes_per_s or 0.0):
                self._note(path.name, speed)

    def _note(self, name: str, speed: Speed) -> None:
        known = self._status[name]
        self._sink.emit(PathMeasured(Word(name), speed.bytes_per_s, speed.alone))
        if not speed.alone and (known.bytes_per_s or 0.0) >= speed.bytes_per_s:
            return  # a busy network says only that the path is at least that fast
        self._set(dataclasses.replace(known, bytes_per_s=speed.bytes_per_s, at_least=not speed.alone))

    def _set(self, status: PathStatus) -> None:
        self._status[status.name] = status
        self._announce()

    def _announce(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
        self._sink.changed()


def _why_down(error: Exception) -> str:
    match error:
        case DuetError():  # also a CallTimeout, which is a TimeoutError
            return str(error)
        case TimeoutError():
            return f"it did not open within {OPEN_TIMEOUT_S:g} s"
        case _:
            return getattr(error, "strerror", None) or str(error)


def _faster(one: PathStatus, other: PathStatus) -> bool:
    """Return True if `one` is known to be so much faster than `other` that preference does not count."""
    if one.bytes_per_s is None or other.bytes_per_s is None or other.at_least:
        return False
    return one.bytes_per_s > (FASTER_RELAY if one.name == "relay" else FASTER) * other.bytes_per_s
