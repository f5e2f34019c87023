"""What takes memory or descriptors, and why it is kept: it is closed when the last reason goes.

Theory. Garbage collection frees an object when nobody refers to it, which a list of old requests can put off
for ever, and nobody can ask why. So whoever needs something says so by a named reason, and takes that back:
an asset is kept because it is offered, because a request waits for it, because it is going out. What has been
opened for it, such as a descriptor, is closed when no reason is left, and the reasons can be shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import partial


@dataclass(frozen=True, slots=True)
class HeldStatus:
    """One thing that is held, as of now."""

    title: str
    size_bytes: int
    descriptors: int  # of this process, that are open for it
    reasons: tuple[str, ...]  # each once, with how often it counts where that is more than once


class Retained:
    """One thing and the reasons for which it is kept.

    It may be kept again after it was closed: what is opened for it then is closed the next time. One method
    at a time; any thread may ask for the status.
    """

    __slots__ = ("_closers", "_reasons", "descriptors", "size_bytes", "title")

    def __init__(self, title: str = "", size_bytes: int = 0, descriptors: int = 0) -> None:
        self.title = title
        self.size_bytes = size_bytes
        self.descriptors = descriptors
        self._reasons: dict[tuple[str, Hashable], None] = {}
        self._closers: dict[Callable[[], None], None] = {}

    @property
    def is_kept(self) -> bool:
        """Whether there is a reason."""
        return bool(self._reasons)

    def keep(self, reason: str, by: Hashable = None) -> None:
        """There is this reason; `by` tells it from others in the same words."""
        self._reasons[reason, by] = None

    def let_go(self, reason: str, by: Hashable = None) -> None:
        """This reason is gone, if it was there. The last one closes what was opened for the thing."""
        if self._reasons.pop((reason, by), self) is self or self._reasons:
            return
        while self._closers:
            self._closers.popitem()[0]()

    def let_all_go(self) -> None:
        """There is no reason any more: close what was opened for the thing."""
        for reason, by in list(self._reasons):
            self.let_go(reason, by)

    def at_end(self, close: Callable[[], None]) -> None:
        """Call `close`, once, when the last reason goes; the last one added runs first."""
        self._closers[close] = None

    def not_at_end(self, close: Callable[[], None]) -> None:
        """It need not be called: what it would close is closed."""
        self._closers.pop(close, None)

    def status(self) -> HeldStatus:
        reasons = [reason for reason, _ in list(self._reasons)]
        if len(reasons) > 1:
            counted = Counter(reasons).items()
            reasons = [reason if count == 1 else f"{reason} (×{count})" for reason, count in counted]
        return HeldStatus(self.title, self.size_bytes, self.descriptors, tuple(reasons))


class Holdings:
    """All that one side of a duet holds. One `keep` at a time; any thread may iterate."""

    def __init__(self) -> None:
        self._held: dict[Retained, None] = {}

    def keep(self, held: Retained, reason: str, by: Hashable = None) -> None:
        """There is a reason to keep something, which is listed here until none is left."""
        held.keep(reason, by)
        if held not in self._held:
            self._held[held] = None
            held.at_end(partial(self._held.pop, held, None))

    def __iter__(self) -> Iterator[Retained]:
        """The oldest first."""
        return iter(list(self._held))
