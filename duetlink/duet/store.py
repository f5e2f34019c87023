"""The store: every object that either side shares or has given, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from duetlink.duet.asking import Asking
from duetlink.duet.asset import AssetInfo
from duetlink.duet.catalogue import Catalogue
from duetlink.duet.display import Table, size_text
from duetlink.duet.pointer import Described, Pointer, ReceivedObject
from duetlink.errors import AssetNotFound
from duetlink.runtime.loop import LoopThread


class Asset(Described):
    """An object that this side shares. Its content leaves only by a yes."""

    def __init__(self, info: AssetInfo, catalogue: Catalogue, thread: LoopThread) -> None:
        super().__init__(info)
        self._catalogue = catalogue
        self._thread = thread

    def unshare(self) -> None:
        """Offer it no longer; pending requests for it are denied. What has left has left."""

        async def unshare() -> None:
            self._catalogue.unshare(self._info)

        self._thread.run(unshare())


class Store(Mapping[str, Described]):
    """A live view. Where both sides use one name, the peer's object comes first, then what it gave."""

    def __init__(self, catalogue: Catalogue, asking: Asking, thread: LoopThread) -> None:
        self._catalogue = catalogue
        self._asking = asking
        self._thread = thread

    def __getitem__(self, name: str) -> Described:
        if (info := self._catalogue.peer.get(name)) is not None:
            return Pointer(info, self._asking, self._thread)
        if (received := self._catalogue.received.get(name)) is not None:
            return ReceivedObject(received)
        if (mine := self._catalogue.mine.get(name)) is not None:
            return Asset(mine.info, self._catalogue, self._thread)
        known = ", ".join(repr(known) for known in list(self)[:10]) or "nothing yet"
        raise AssetNotFound(f"the store has no {name!r}; it has {known}")

    def __iter__(self) -> Iterator[str]:
        catalogue = self._catalogue
        return iter(dict.fromkeys([*catalogue.peer, *catalogue.received, *catalogue.mine]))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def table(self) -> Table:
        places = {Pointer: "peer's", ReceivedObject: "received", Asset: "mine"}
        rows = []
        for name in self:
            entry = self[name]
            rows.append(
                (
                    name,
                    places[type(entry)],
                    f"{entry.kind} {entry.detail}",
                    size_text(entry.size_bytes),
                    entry.description,
                    ", ".join(entry.tags),
                )
            )
        headers = ("name", "whose", "type", "size", "description", "tags")
        return Table("Store", headers, rows, "neither side shares anything yet")

    def __repr__(self) -> str:
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()
