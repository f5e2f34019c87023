"""Memory and descriptors that are kept for named reasons, and closed with the last reason.

Theory. Garbage collection frees an object when the last reference disappears, which a list of old requests
can delay for ever, without an explanation. So each user of a resource adds a named reason, and removes it
later: an asset is kept because it is offered, because a request waits for it, because it is being sent.
Whatever was opened for it, such as a descriptor, is closed with the last reason, and the reasons can be
shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import partial


@dataclass(frozen=True, slots=True)
class HeldStatus:
    """The status of one resource at one moment."""

    title: str
    size_bytes: int
    descriptors: int  # number of this process's descriptors that are open for it
    reasons: tuple[str, ...]  # without repetition, with the count if it is above 1
    shared_bytes: int = 0  # of its size, what is in memory that a peer of this host can map


class Retained:
    """One resource and the reasons for which it is kept.

    It may be kept again after it was closed; resources opened then are closed the next time. Not for
    concurrent calls, except that any thread may call `status`.
    """

    __slots__ = ("_closers", "_reasons", "descriptors", "shared_bytes", "size_bytes", "title")

    def __init__(
        self, title: str = "", size_bytes: int = 0, descriptors: int = 0, shared_bytes: int = 0
    ) -> None:
        self.title = title
        self.size_bytes = size_bytes
        self.shared_bytes = shared_bytes
        self.descriptors = descriptors
        self._reasons: dict[tuple[str, Hashable], None] = {}
        self._closers: dict[Callable[[], None], None] = {}

    @property
    def is_kept(self) -> bool:
        """True while there is a reason."""
        return bool(self._reasons)

    def keep(self, reason: str, by: Hashable = None) -> None:
        """Add a reason; `by` distinguishes reasons with the same words."""
        self._reasons[reason, by] = None

    def let_go(self, reason: str, by: Hashable = None) -> None:
        """Remove a reason, if it exists. Removing the last one closes what was opened."""
        if self._reasons.pop((reason, by), self) is self or self._reasons:
            return
        while self._closers:
            self._closers.popitem()[0]()

    def let_all_go(self) -> None:
        """Remove all reasons and close what was opened."""
        for reason, by in list(self._reasons):
            self.let_go(reason, by)

    def at_end(self, close: Callable[[], None]) -> None:
        """Call `close`, once, when the last reason is removed; the last one added runs first."""
        self._closers[close] = None

    def not_at_end(self, close: Callable[[], None]) -> None:
        """Cancel `at_end`, because `close` is no longer needed."""
        self._closers.pop(close, None)

    def status(self) -> HeldStatus:
        reasons = [reason for reason, _ in list(self._reasons)]
        if len(reasons) > 1:
            counted = Counter(reasons).items()
            reasons = [reason if count == 1 else f"{reason} (×{count})" for reason, count in counted]
        return HeldStatus(self.title, self.size_bytes, self.descriptors, tuple(reasons), self.shared_bytes)


class Holdings:
    """All resources that one side of a duet keeps. Not for concurrent `keep`; any thread may iterate."""

    def __init__(self) -> None:
        self._held: dict[Retained, None] = {}

    def keep(self, held: Retained, reason: str, by: Hashable = None) -> None:
        """Add a reason to a resource, which is listed here while it has any."""
        held.keep(reason, by)
        if held not in self._held:
            self._held[held] = None
            held.at_end(partial(self._held.pop, held, None))

    def __iter__(self) -> Iterator[Retained]:
        """Iterate from the oldest to the newest."""
        return iter(list(self._held))
