"""The store: every object that either side shares or has given, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from duetlink.base.quantities import size_text
from duetlink.base.runtime.loop import LoopThread
from duetlink.base.wire.text import harmless
from duetlink.duet.asking.pointers.columns import names_and_dtypes
from duetlink.duet.asking.pointers.pointer import Described, Pointer, ReceivedObject
from duetlink.duet.asking.pointers.remote_session import RemoteSession
from duetlink.duet.asking.requests.asking import Asking
from duetlink.duet.display import Displayed, Table, imported_pandas, shortened
from duetlink.duet.objects.asset import AssetInfo
from duetlink.duet.objects.catalogue import Catalogue
from duetlink.errors import AssetNotFound, TransferFailed

if TYPE_CHECKING:
    import pandas as pd


class Asset(Described):
    """An object that this side shares. Its content leaves only by a yes."""

    def __init__(self, info: AssetInfo, catalogue: Catalogue, thread: LoopThread) -> None:
        super().__init__(info)
        self._catalogue = catalogue
        self._thread = thread

    @property
    def mock(self) -> Any:
        """What the peer works with in its place, all of which it may have; None where there is nothing, or
        where that is over 16 MiB and nobody holds it any more.
        """
        mine = self._catalogue.mine.get(self._info.name)
        if mine is None or mine.info.revision != self.revision or mine.mock is None:
            return None
        return mine.mock.look()

    def unshare(self) -> None:
        """Offer it no longer; pending requests for it are denied. What has left has left."""
        self._thread.run(_unshare(self._catalogue, self._info))


class AwaitedAsset(Described):
    """An object that an earlier kernel of this side has shared. Share it again: where it is the very same
    content, it goes on as the revision that it was, with what was asked and granted. The peer does not see it
    before.
    """

    def __init__(self, info: AssetInfo, catalogue: Catalogue, thread: LoopThread) -> None:
        super().__init__(info)
        self._catalogue = catalogue
        self._thread = thread

    def unshare(self) -> None:
        """Wait for it no longer; pending requests for it are denied."""
        self._thread.run(_unshare(self._catalogue, self._info))


Whose = Literal["mine", "awaiting", "peer", "received"]

# this side's own come first, so that neither a name nor a number of the peer's puts them out of sight
_ORDER: tuple[Whose, ...] = ("mine", "awaiting", "peer", "received")


class Listed(NamedTuple):
    """Whose an object is, and what its owner says of it. No way leads from here to the object, so that what
    shows many cannot ask the peer for anything, nor take a column of that name for what was said.
    """

    whose: Whose
    described: Described

    @property
    def key(self) -> tuple[Whose, str]:
        return self.whose, self.described._info.name


class Store(Mapping[str, Pointer], Displayed):
    """A live view. Where both sides use one name, it is this side's own object; `mine`, `peer` and `received`
    have each side's alone. A name of the peer's is as it is printed, with escapes for what would be a command
    to a terminal.

    An item is a `Pointer` for what the peer shares, a `ReceivedObject` for what it gave, an `Asset` or
    `AwaitedAsset` for what is this side's. To a type checker each is a `Pointer`, which has what is done with
    most of them: `get`, `request`, and any attribute.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        asking: Asking,
        thread: LoopThread,
        remote_session: RemoteSession,
        found: frozenset[tuple[Whose, str]] | None = None,
        places: tuple[Whose, ...] = _ORDER,
    ) -> None:
        self._found = found  # those that were searched for; None: all
        self._places = places
        self._catalogue = catalogue
        self._asking = asking
        self._thread = thread
        self._remote_session = remote_session

    def search(self, text: str) -> Store:
        """Those of these that have `text` in name, type, description or a tag, in upper or lower case."""
        wanted = text.casefold()
        found = frozenset(one.key for one in listed(self) if wanted in _words(one.described).casefold())
        return self._of(found, self._places)

    @property
    def mine(self) -> Store:
        """Those that this side shares, or has shared in an earlier kernel: what `unshare` is for."""
        return self._of(self._found, ("mine", "awaiting"))

    @property
    def peer(self) -> Store:
        """Those that the peer shares."""
        return self._of(self._found, ("peer",))

    @property
    def received(self) -> Store:
        """Those that the peer gave."""
        return self._of(self._found, ("received",))

    def _of(self, found: frozenset[tuple[Whose, str]] | None, places: tuple[Whose, ...]) -> Store:
        return Store(self._catalogue, self._asking, self._thread, self._remote_session, found, places)

    def to_pandas(self) -> pd.DataFrame:
        """A frame with a row for each, by name. Raises MissingLibrary: pandas is not installed."""
        pd = imported_pandas()
        rows = listed(self)
        return pd.DataFrame(
            [[_PLACES[whose], *(getattr(said, column) for column in _COLUMNS)] for whose, said in rows],
            index=pd.Index([said.name for _, said in rows], name="name"),
            columns=["whose", *_COLUMNS],
        )

    def __getitem__(self, name: str) -> Pointer:
        return cast(Pointer, self._entry(name))

    def _entry(self, name: str) -> Described:
        for whose in self._places:
            shown_so = (each for each in self._infos(whose) if each != name and harmless(each) == name)
            for each in chain((name,), shown_so):
                is_there = self._found is None or (whose, each) in self._found
                if is_there and (entry := self._object(whose, each)) is not None:
                    return entry
        known = ", ".join(repr(known) for known in list(self)[:10]) or "nothing yet"
        raise AssetNotFound(f"the store has no {name!r}; it has {known}")

    def _object(self, whose: Whose, name: str) -> Described | None:
        """None: there is none (any more)."""
        catalogue = self._catalogue
        if whose == "peer" and (info := catalogue.peer.get(name)) is not None:
            return Pointer(info, self._asking, self._thread, self._remote_session)
        if whose == "received" and (received := catalogue.received.get(name)) is not None:
            return ReceivedObject(received)
        if whose == "mine" and (mine := catalogue.mine.get(name)) is not None:
            return Asset(mine.info, catalogue, self._thread)
        if whose == "awaiting" and (awaited := catalogue.awaiting.get(name)) is not None:
            return AwaitedAsset(awaited.info, catalogue, self._thread)
        return None

    def _infos(self, whose: Whose) -> dict[str, AssetInfo]:
        """What is said of each, by the name that its owner gave it."""
        catalogue = self._catalogue
        if whose == "peer":
            return dict(catalogue.peer)
        if whose == "mine":
            return {name: mine.info for name, mine in dict(catalogue.mine).items()}
        if whose == "awaiting":
            return {name: awaited.info for name, awaited in dict(catalogue.awaiting).items()}
        return {name: received.info for name, received in dict(catalogue.received).items()}

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(one.described.name for one in listed(self)))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def _ipython_key_completions_(self) -> list[str]:
        """What IPython offers between the brackets of `duet.store[…]`."""
        return list(self)

    def table(self) -> Table:
        """All objects, of many, the first and the last by when they came; of frames, their columns with
        dtypes, as far as there is a mock that says them.
        """
        entries: list[Listed | int] = [*listed(self)]
        shown = shortened(entries, int)  # a number stands for so many that are left out
        of_peer = [one.described._info for one in shown if isinstance(one, Listed) and one.whose == "peer"]
        self._remote_session.glance(of_peer)
        rows = [self._row(one) for one in shown]
        headers = ("name", "whose", "type", "size", "columns", "description", "tags", "mock", "budget")
        kept = [
            column for column, name in enumerate(headers) if column < 4 or any(row[column] for row in rows)
        ]
        return Table(
            "Store",
            tuple(headers[column] for column in kept),
            [tuple(row[column] for column in kept) for row in rows],
            "neither side shares anything yet",
        )

    def _row(self, one: Listed | int) -> tuple[str, ...]:
        if isinstance(one, int):
            return (f"… {one:,} more", "", "", "", "", "", "", "", "")
        said = one.described
        return (
            said.name,
            _PLACES[one.whose],
            f"{said.kind} {said.detail}",
            size_text(said.size_bytes),
            names_and_dtypes(self._here(one)),
            said.description,
            ", ".join(said.tags),
            said.mock_words,
            said.budget,
        )

    def _here(self, one: Listed) -> Any:
        """What may be seen here of an object, as far as it is here; None: nothing."""
        if one.whose == "peer":
            return self._remote_session.here(one.described._info)
        entry = self._object(*one.key)
        if isinstance(entry, ReceivedObject):
            return entry.get()
        return entry.mock if isinstance(entry, Asset) else None


def listed(store: Store) -> list[Listed]:
    """What either side shares or has given: this side's own, then the peer's, each by when they came."""
    every = [
        Listed(whose, Described(info)) for whose in store._places for info in store._infos(whose).values()
    ]
    return [one for one in every if store._found is None or one.key in store._found]


def look(store: Store, whose: str, name: str) -> Any:
    """What may be seen here of an object: the mock of what is shared, and what was given as it is. It waits
    for the peer as long as a line that is printed does.

    Raises:
        AssetNotFound: it is there no more. TransferFailed: its mock has not come.
    """
    for one in listed(store):
        if one.key == (whose, name):
            if whose == "peer":
                store._remote_session.glance([one.described._info])
            if (here := store._here(one)) is None and one.described.mock_words and whose == "peer":
                raise TransferFailed(f"the mock of {one.described.name!r} is not here yet; look again")
            return here
    raise AssetNotFound(f"the store has no {name!r} any more")


async def _unshare(catalogue: Catalogue, info: AssetInfo) -> None:
    catalogue.unshare(info)
    await catalogue.kept()  # a grant that it has ended must not come back


_PLACES: dict[Whose, str] = {
    "mine": "mine",
    "awaiting": "mine; awaiting content, share it again",
    "peer": "peer's",
    "received": "received",
}


_COLUMNS = ("kind", "detail", "size_bytes", "revision", "description", "tags", "mock_words", "budget")


def _words(entry: Described) -> str:
    return "\n".join((entry.name, entry.kind, entry.detail, entry.description, *entry.tags))
