"""`duet.store`: the objects that either side shares or has given, by name."""

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
    """An object that this side shares. Its content leaves only after an approval."""

    def __init__(self, info: AssetInfo, catalogue: Catalogue, thread: LoopThread) -> None:
        super().__init__(info)
        self._catalogue = catalogue
        self._thread = thread

    @property
    def mock(self) -> Any:
        """The mock that the peer works with and gets without a request. None if there is none, or if it is
        over 16 MiB and has been garbage-collected.
        """
        mine = self._catalogue.mine.get(self._info.name)
        if mine is None or mine.info.revision != self.revision or mine.mock is None:
            return None
        return mine.mock.look()

    def unshare(self) -> None:
        """Stop offering it; pending requests for it are denied. What has left has left."""
        self._thread.run(_unshare(self._catalogue, self._info))


class AwaitedAsset(Described):
    """An object that an earlier kernel of this side shared, and whose content is missing since. Share it
    again: if the content is exactly the same, its revision continues, with its requests and grants. The peer
    does not see it until then.
    """

    def __init__(self, info: AssetInfo, catalogue: Catalogue, thread: LoopThread) -> None:
        super().__init__(info)
        self._catalogue = catalogue
        self._thread = thread

    def unshare(self) -> None:
        """Stop waiting for it; pending requests for it are denied."""
        self._thread.run(_unshare(self._catalogue, self._info))


Whose = Literal["mine", "awaiting", "peer", "received"]

# own objects first, so that the peer cannot hide them by a name or by many objects
_ORDER: tuple[Whose, ...] = ("mine", "awaiting", "peer", "received")


class Listed(NamedTuple):
    """An object in the store: whose it is, and its description. It gives no access to the object itself, so
    that code which lists many objects cannot request anything from the peer, or confuse a column's name with
    a field.
    """

    whose: Whose
    described: Described

    @property
    def key(self) -> tuple[Whose, str]:
        return self.whose, self.described._info.name


class Store(Mapping[str, Pointer], Displayed):
    """A live view of the objects of both sides.

    If both sides use one name, the item is this side's own object; `mine`, `peer` and `received` have only
    one side's. A name of the peer's is shown with control characters escaped.

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
        self._found = found  # the results of `search`; None: all
        self._places = places
        self._catalogue = catalogue
        self._asking = asking
        self._thread = thread
        self._remote_session = remote_session

    def search(self, text: str) -> Store:
        """Return the objects that contain `text` in name, type, description or a tag; upper and lower case
        are the same.
        """
        wanted = text.casefold()
        found = frozenset(one.key for one in listed(self) if wanted in _words(one.described).casefold())
        return self._of(found, self._places)

    @property
    def mine(self) -> Store:
        """The objects that this side shares, or has shared in an earlier kernel: those that
        `unshare` is for.
        """
        return self._of(self._found, ("mine", "awaiting"))

    @property
    def peer(self) -> Store:
        """The objects that the peer shares."""
        return self._of(self._found, ("peer",))

    @property
    def received(self) -> Store:
        """The objects that the peer gave."""
        return self._of(self._found, ("received",))

    def _of(self, found: frozenset[tuple[Whose, str]] | None, places: tuple[Whose, ...]) -> Store:
        return Store(self._catalogue, self._asking, self._thread, self._remote_session, found, places)

    def to_pandas(self) -> pd.DataFrame:
        """Return a frame with one row for each object, by name. Raises MissingLibrary: pandas is not
        installed.
        """
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
        """Return the item; None if there is none, or no longer."""
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
        """Return the descriptions by name, unescaped."""
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
        """Return what IPython offers between the brackets of `duet.store[…]`."""
        return list(self)

    def table(self) -> Table:
        """Return a table of all objects; if there are many, only of the first and last ones. Frames are
        listed with their columns and dtypes, if there is a mock that has them.
        """
        entries: list[Listed | int] = [*listed(self)]
        shown = shortened(entries, int)  # a number stands for that many rows left out
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
        """Return the mock or the given object, as far as it is on this side; None if it is not."""
        if one.whose == "peer":
            return self._remote_session.here(one.described._info)
        entry = self._object(*one.key)
        if isinstance(entry, ReceivedObject):
            return entry.get()
        return entry.mock if isinstance(entry, Asset) else None


def listed(store: Store) -> list[Listed]:
    """Return the objects in the store: this side's own first, then the peer's, each in order of arrival."""
    every = [
        Listed(whose, Described(info)) for whose in store._places for info in store._infos(whose).values()
    ]
    return [one for one in every if store._found is None or one.key in store._found]


def look(store: Store, whose: str, name: str) -> Any:
    """Return what can be shown of an object: the mock of a shared object, or the object that was given. Waits
    for the peer as long as a printed table does.

    Raises:
        AssetNotFound: it is no longer in the store. TransferFailed: its mock has not arrived.
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
    await catalogue.kept()  # the grants that this ended must not return after a restart


_PLACES: dict[Whose, str] = {
    "mine": "mine",
    "awaiting": "mine; awaiting content, share it again",
    "peer": "peer's",
    "received": "received",
}


_COLUMNS = ("kind", "detail", "size_bytes", "revision", "description", "tags", "mock_words", "budget")


def _words(entry: Described) -> str:
    return "\n".join((entry.name, entry.kind, entry.detail, entry.description, *entry.tags))
