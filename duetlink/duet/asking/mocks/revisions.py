"""The mocks of the peer's assets that this side has fetched, and the reasons for keeping each."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from duetlink.base.runtime.holdings import Retained
from duetlink.duet.asking.mocks.unaltered import Unaltered
from duetlink.duet.objects.asset import AssetInfo
from duetlink.duet.objects.catalogue import Catalogue

SHARED = "the peer shares it"
POINTED_TO = "a pointer holds it"
CHECKED = "a program is checked on its mock"

Key = tuple[str, int]  # name and revision


class RevisionHandle:
    """An object that all pointers to one revision share. Its garbage collection shows that none is left."""

    __slots__ = ("__weakref__",)


class Revision:
    """One revision of a peer's asset, and its mock once that was fetched. Any thread may fill it in."""

    __slots__ = ("handle", "held", "hidden", "mock", "unaltered")

    def __init__(self, key: Key) -> None:
        self.held = Retained(f"mock of {key[0]}, revision {key[1]}")
        self.mock: tuple[Any] | None = None  # None: it has not been fetched
        self.unaltered: Unaltered | None = None  # an encoded copy of it; None: there was no memory for one
        self.hidden: int | None = None  # the mask of its private sizes; None: not computed yet
        self.handle: weakref.ref[RevisionHandle] | None = None


class Pin(NamedTuple):
    """Revisions that are kept until `unpin`, in the order in which they were named."""

    revisions: list[Revision]
    number: int


class Revisions:
    """The revisions that pointers have used. Any thread may call.

    Each is kept as long as the peer shares it or a pointer to it lives. A pointer may be garbage-collected on
    any thread and at any moment, so the reason is removed a little later on the loop thread.
    """

    def __init__(self, catalogue: Catalogue, ended: Callable[[Key], None]) -> None:
        """`ended` is called with each revision that is no longer needed."""
        self._catalogue = catalogue
        self._ended = ended
        self._loop: asyncio.AbstractEventLoop | None = None
        self._revisions: dict[str, dict[int, Revision]] = {}  # by name and number
        self._numbers = itertools.count()
        self._lock = threading.Lock()  # must not be held while waiting for the loop thread

    def attach(self) -> None:
        """Set the running loop as the one on which the peer's messages arrive."""
        self._loop = asyncio.get_running_loop()

    def close(self) -> None:
        with self._lock:
            for of_name in list(self._revisions.values()):
                for revision in list(of_name.values()):
                    revision.held.let_all_go()

    def of(self, info: AssetInfo) -> Revision:
        """Return the revision of an asset; the first call creates it without a mock."""
        with self._lock:
            return self._find(info)

    def hold(self, info: AssetInfo) -> RevisionHandle:
        """Return the handle that a new pointer keeps for as long as it lives."""
        with self._lock:
            revision = self._find(info)
            handle = revision.handle() if revision.handle is not None else None
            if handle is None:
                handle, number = RevisionHandle(), next(self._numbers)
                revision.handle = weakref.ref(handle, partial(self._dropped, revision, number))
                self._catalogue.holdings.keep(revision.held, POINTED_TO, number)
            return handle

    def fill(self, revision: Revision, mock: Any, size_bytes: int, unaltered: Unaltered | None) -> Any:
        """Store a mock that was fetched, and return the mock to use.

        That is the earlier one if two threads fetched it. Takes ownership of `unaltered`.
        """
        with self._lock:
            if revision.mock is not None or not revision.held.is_kept:
                if unaltered is not None:
                    unaltered.close()
                return revision.mock[0] if revision.mock is not None else mock
            revision.mock, revision.held.size_bytes = (mock,), size_bytes
            if unaltered is not None:
                revision.unaltered = unaltered
                revision.held.descriptors = unaltered.descriptors
                revision.held.at_end(unaltered.close)
            return mock

    def pin(self, keys: Sequence[Key]) -> Pin | None:
        """Keep the unaltered mocks of these revisions until `unpin`; None if one of them is missing."""
        with self._lock:
            found = [self._revisions.get(name, {}).get(number) for name, number in keys]
            pinned = [
                revision for revision in found if revision is not None and revision.unaltered is not None
            ]
            if len(pinned) < len(found):
                return None
            number = next(self._numbers)
            for revision in pinned:
                self._catalogue.holdings.keep(revision.held, CHECKED, number)
            return Pin(pinned, number)

    def unpin(self, pin: Pin) -> None:
        for revision in pin.revisions:
            self._let_go(revision, CHECKED, pin.number)

    def get(self, info: AssetInfo) -> Revision | None:
        return self._revisions.get(info.name, {}).get(info.revision)

    def _find(self, info: AssetInfo) -> Revision:
        revision = self.get(info)
        if revision is None:
            key = info.name, info.revision
            revision = self._revisions.setdefault(info.name, {})[info.revision] = Revision(key)
            revision.held.at_end(partial(self._end, key))
            self._catalogue.holdings.keep(revision.held, SHARED)
            self._soon(self.review, info.name)  # the peer may have shared a newer revision meanwhile
        return revision

    def _end(self, key: Key) -> None:
        name, number = key
        of_name = self._revisions[name]
        del of_name[number]
        if not of_name:
            del self._revisions[name]
        self._ended(key)

    def _soon(self, call: Callable[..., None], *arguments: Any) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and so is this object
                self._loop.call_soon_threadsafe(call, *arguments)

    def _dropped(self, revision: Revision, number: int, handle: weakref.ref[RevisionHandle]) -> None:
        self._soon(self._let_go, revision, POINTED_TO, number)

    def _let_go(self, revision: Revision, reason: str, by: int | None = None) -> None:
        with self._lock:
            revision.held.let_go(reason, by)

    def review(self, name: str) -> None:
        """Release the revisions of `name` that the peer no longer shares and no pointer holds."""
        shared = self._catalogue.peer.get(name)
        with self._lock:
            for number, revision in list(self._revisions.get(name, {}).items()):
                if shared is None or shared.revision != number:
                    revision.held.let_go(SHARED)
