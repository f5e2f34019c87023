"""All paths of one link, tried together: which are up, which is best, what became of each.

The order of the list is the preference. A path that fails is tried again after a pause that doubles from
RETRY_FIRST_S to RETRY_LAST_S, so that a better path comes back in the background.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from duetlink.errors import DuetError, PathUnavailable
from duetlink.flight.body import Outgoing
from duetlink.paths.base import OPEN_TIMEOUT_S, Path

RETRY_FIRST_S = 1.0
RETRY_LAST_S = 60.0

# how long a transfer waits where every path is down
GRACE_S = 5.0

OPENING, UP, DOWN = "opening", "up", "down"


@dataclass(frozen=True, slots=True)
class PathStatus:
    """One rung, for a person: `why` says in words what keeps it down."""

    name: str
    state: str
    why: str = ""


class Ladder:
    """Opens paths and keeps them open. Methods belong to the loop thread."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = {path.name: path for path in paths}
        self._status = {name: PathStatus(name, OPENING) for name in self._paths}
        self._changed = asyncio.Event()
        self._openers: dict[str, asyncio.Task[None]] = {}

    def start(self) -> None:
        """Begin to open every path, all at once."""
        for name in self._paths:
            self._openers[name] = asyncio.ensure_future(self._keep_open(name, 0.0))

    def statuses(self) -> tuple[PathStatus, ...]:
        return tuple(self._status.values())

    def named(self, name: str) -> Path:
        """The path of that name; raises PathUnavailable where this side does not allow it."""
        try:
            return self._paths[name]
        except KeyError:
            raise PathUnavailable(
                f"path {name[:40]!r} is not allowed on this side; it allows {', '.join(self._paths)}"
            ) from None

    async def prepare(self, outgoing: Outgoing) -> None:
        """Let every path do ahead what it can for a body that may be asked for."""
        for path in self._paths.values():
            with contextlib.suppress(DuetError):  # it will be said when somebody asks
                await path.prepare(outgoing)

    @property
    def best(self) -> Path | None:
        """The most preferred path that is up now."""
        for name, status in self._status.items():
            if status.state == UP:
                return self._paths[name]
        return None

    async def wait_best(self, avoid: Mapping[str, str], grace_s: float = GRACE_S) -> Path:
        """The most preferred path that is up and not in `avoid` (name -> why), waiting for one to come up.

        Raises:
            PathUnavailable: all others have been down for `grace_s`; the message says why, for each.
        """
        while True:
            eligible = [status for status in self._status.values() if status.name not in avoid]
            for status in eligible:
                if status.state == UP:
                    return self._paths[status.name]
            patience_s = None if any(status.state == OPENING for status in eligible) else grace_s
            try:
                async with asyncio.timeout(patience_s if eligible else 0.0):
                    await self._changed.wait()
            except TimeoutError:
                whys = {status.name: status.why for status in self._status.values()} | dict(avoid)
                reasons = "; ".join(f"{name}: {why}" for name, why in whys.items())
                raise PathUnavailable(f"no path to the peer works ({reasons})") from None

    async def wait_settled(self) -> None:
        """Wait until every path has come up or failed once."""
        while any(status.state == OPENING for status in self._status.values()):
            await self._changed.wait()

    async def wait_better_than(self, path: Path) -> Path:
        """Wait until a path preferred to `path` is up."""
        while True:
            best = self.best
            if best is not None and self._rank(best) < self._rank(path):
                return best
            await self._changed.wait()

    def mark_down(self, path: Path, error: Exception) -> None:
        """A transfer found `path` broken; it is opened again in the background."""
        if self._status[path.name].state == UP:
            self._set(PathStatus(path.name, DOWN, str(error)))
            self._openers[path.name].cancel()
            self._openers[path.name] = asyncio.ensure_future(self._keep_open(path.name, RETRY_FIRST_S))

    async def close(self) -> None:
        """Stop opening, close every path."""
        for opener in self._openers.values():
            opener.cancel()
        await asyncio.gather(*self._openers.values(), return_exceptions=True)
        await asyncio.gather(*(path.close() for path in self._paths.values()), return_exceptions=True)

    def _rank(self, path: Path) -> int:
        return list(self._paths).index(path.name)

    async def _keep_open(self, name: str, pause_s: float) -> None:
        """Open one path, again and again until it is up."""
        while True:
            await asyncio.sleep(pause_s)
            try:
                async with asyncio.timeout(OPEN_TIMEOUT_S):
                    await self._paths[name].open()
            except TimeoutError:
                self._set(PathStatus(name, DOWN, f"it did not open within {OPEN_TIMEOUT_S:g} s"))
            except DuetError as error:
                self._set(PathStatus(name, DOWN, str(error)))
            except OSError as error:
                self._set(PathStatus(name, DOWN, error.strerror or str(error)))
            else:
                self._set(PathStatus(name, UP))
                return
            pause_s = min(max(2 * pause_s, RETRY_FIRST_S), RETRY_LAST_S)

    def _set(self, status: PathStatus) -> None:
        self._status[status.name] = status
        self._changed.set()
        self._changed = asyncio.Event()
