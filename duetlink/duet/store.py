"""The store: every object that either side shares or has given, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from duetlink.base.quantities import size_text
from duetlink.base.runtime.loop import LoopThread
from duetlink.duet.asking.asking import Asking
from duetlink.duet.asking.columns import names_and_dtypes
from duetlink.duet.asking.pointer import Described, Pointer, ReceivedObject
from duetlink.duet.asking.workbench import Workbench
from duetlink.duet.display import Table, imported_pandas, shortened
from duetlink.duet.objects.asset import AssetInfo
from duetlink.duet.objects.catalogue import Catalogue
from duetlink.errors import AssetNotFound

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


class Store(Mapping[str, Pointer]):
    """A live view. Where both sides use one name, the peer's object comes first, then what it gave.

    An item is a `Pointer` for what the peer shares, a `ReceivedObject` for what it gave, an `Asset` or
    `AwaitedAsset` for what is this side's. To a type checker each is a `Pointer`, which has what is done with
    most of them: `get`, `request`, and any attribute.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        asking: Asking,
        thread: LoopThread,
        workbench: Workbench,
        names: frozenset[str] | None = None,
    ) -> None:
        self._names = names  # those that were searched for; None: all
        self._catalogue = catalogue
        self._asking = asking
        self._thread = thread
        self._workbench = workbench

    def search(self, text: str) -> Store:
        """Those of these that have `text` in name, type, description or a tag, in upper or lower case."""
        wanted = text.casefold()
        found = frozenset(entry._info.name for entry in self._entries() if wanted in _words(entry).casefold())
        return Store(self._catalogue, self._asking, self._thread, self._workbench, found)

    def to_pandas(self) -> pd.DataFrame:
        """A frame with a row for each, by name. Raises MissingLibrary: pandas is not installed."""
        pd = imported_pandas()
        entries = self._entries()
        return pd.DataFrame(
            [[_PLACES[type(entry)], *(getattr(entry, column) for column in _COLUMNS)] for entry in entries],
            index=pd.Index([entry.name for entry in entries], name="name"),
            columns=["whose", *_COLUMNS],
        )

    def _entries(self) -> list[Described]:
        return [entry for name in self if (entry := self._found(name)) is not None]

    def _found(self, name: str) -> Described | None:
        try:
            return self._entry(name)
        except AssetNotFound:  # taken back meanwhile
            return None

    def __getitem__(self, name: str) -> Pointer:
        return cast(Pointer, self._entry(name))

    def _entry(self, name: str) -> Described:
        if self._names is not None and name not in self._names:
            raise AssetNotFound(f"what was searched for has no {name!r}; duet.store has all")
        if (info := self._catalogue.peer.get(name)) is not None:
            return Pointer(info, self._asking, self._thread, self._workbench)
        if (received := self._catalogue.received.get(name)) is not None:
            return ReceivedObject(received)
        if (mine := self._catalogue.mine.get(name)) is not None:
            return Asset(mine.info, self._catalogue, self._thread)
        if (awaited := self._catalogue.awaiting.get(name)) is not None:
            return AwaitedAsset(awaited.info, self._catalogue, self._thread)
        known = ", ".join(repr(known) for known in list(self)[:10]) or "nothing yet"
        raise AssetNotFound(f"the store has no {name!r}; it has {known}")

    def __iter__(self) -> Iterator[str]:
        catalogue = self._catalogue
        names = dict.fromkeys([*catalogue.peer, *catalogue.received, *catalogue.mine, *catalogue.awaiting])
        return iter(names if self._names is None else [name for name in names if name in self._names])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def _ipython_key_completions_(self) -> list[str]:
        """What IPython offers between the brackets of `duet.store[…]`."""
        return list(self)

    def table(self) -> Table:
        """All objects, of many, the first and the last by when they came; of frames, their columns with
        dtypes, as far as there is a mock that says them.
        """
        names = shortened(list(self), _omitted)
        self._workbench.glance([info for name in names if (info := self._catalogue.peer.get(name))])
        rows = [self._row(name) for name in names]
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

    def _row(self, name: str) -> tuple[str, ...]:
        entry = self._found(name)
        if entry is None:  # what stands for those that are not shown, or was taken back meanwhile
            return (name, "", "", "", "", "", "", "", "")
        return (
            name,
            _PLACES[type(entry)],
            f"{entry.kind} {entry.detail}",
            size_text(entry.size_bytes),
            self._columns(entry),
            entry.description,
            ", ".join(entry.tags),
            entry.mock_words,
            entry.budget,
        )

    def _columns(self, entry: Described) -> str:
        """Names and dtypes in a line, by what is here: of what is the peer's or this side's, its mock."""
        if isinstance(entry, ReceivedObject):
            return names_and_dtypes(entry.get())
        if isinstance(entry, Asset):
            return names_and_dtypes(entry.mock)
        return names_and_dtypes(self._workbench.here(entry._info)) if isinstance(entry, Pointer) else ""

    def __repr__(self) -> str:
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


async def _unshare(catalogue: Catalogue, info: AssetInfo) -> None:
    catalogue.unshare(info)
    await catalogue.kept()  # a grant that it has ended must not come back


_PLACES: dict[type, str] = {
    Pointer: "peer's",
    ReceivedObject: "received",
    Asset: "mine",
    AwaitedAsset: "mine; awaiting content, share it again",
}


_COLUMNS = ("kind", "detail", "size_bytes", "revision", "description", "tags", "mock_words", "budget")


def _words(entry: Described) -> str:
    return "\n".join((entry.name, entry.kind, entry.detail, entry.description, *entry.tags))


def _omitted(count: int) -> str:
    return f"… {count:,} more"
