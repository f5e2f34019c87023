"""The loop thread's side of the store: what each side shares, and what the peer gave. Messages keep both
sides equal.

Only the loop thread writes. Other threads read by single look-ups and by copies of whole dictionaries.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from duetlink.base.audit.entry import SHARE, UNSHARE
from duetlink.base.events import Sink
from duetlink.base.runtime.holdings import Holdings, Retained
from duetlink.base.wire import schema_pb2 as pb
from duetlink.duet.objects.asset import AssetInfo, Content
from duetlink.duet.objects.budget import BudgetedAsset
from duetlink.duet.objects.kept_asset import AssetPersistence, KeptAsset
from duetlink.duet.objects.recorder import Recorder, described
from duetlink.errors import AssetChanged, AssetNotFound, LimitExceeded, ValueRefused
from duetlink.net.link.link import Link
from duetlink.settings import Settings

OFFERED = "offered to the peer"
GIVEN = "the peer has given it"


@dataclass(frozen=True, slots=True)
class Offer:
    """An object that is ready to be shared or given."""

    name: str
    content: Content
    description: str
    tags: tuple[str, ...]
    mock: Content | None = None
    mock_words: str = ""  # how the mock was made
    budgeted: BudgetedAsset | None = None  # if it has a budget for private statistics


@dataclass(frozen=True, slots=True)
class OwnAsset:
    """An asset of this side with its content."""

    info: AssetInfo
    content: Content
    mock: Content | None = None
    budgeted: BudgetedAsset | None = None  # if it has a budget for private statistics


@dataclass(frozen=True, slots=True)
class Received:
    """An object that the peer gave."""

    info: AssetInfo
    value: Any
    held_bytes: int  # the memory that it uses here
    held: Retained = field(default_factory=Retained, compare=False, repr=False)


class AssetRequests(Protocol):
    """The interface to the requests for this side's assets. It is called before the peer is notified."""

    def asset_retired(self, info: AssetInfo, why: str) -> None:
        """Handle that a revision of this side's is no longer offered."""

    def asset_continued(self, info: AssetInfo, content: Content) -> None:
        """Handle that a revision of an earlier kernel has its content again."""


class Catalogue:
    """The assets of both sides."""

    def __init__(
        self, settings: Settings, recorder: Recorder, persistence: AssetPersistence, sink: Sink
    ) -> None:
        self._settings = settings
        self._sink = sink  # notified when the assets of either side change
        self._recorder = recorder
        self._link: Link | None = None
        self._revisions: dict[str, int] = {}
        self._changed = asyncio.Event()
        self._preparing: asyncio.Queue[str] = asyncio.Queue()  # names of shared assets
        self.holdings = Holdings()
        self.mine: dict[str, OwnAsset] = {}
        self.peer: dict[str, AssetInfo] = {}
        self.received: dict[str, Received] = {}
        # shared by an earlier kernel of this side; sent to the peer when shared again
        self.awaiting: dict[str, KeptAsset] = {}
        self._persistence = persistence
        self._requests: AssetRequests | None = None
        self._peer_changed: Callable[[str], None] = lambda name: None

    def answer_for(self, requests: AssetRequests) -> None:
        """Set the object that is called when an asset is retired or continued."""
        self._requests = requests

    def attach(self, link: Link, peer_changed: Callable[[str], None]) -> None:
        """Send all descriptions to a new peer, and handle its messages. `peer_changed` is called with the
        name of each asset that the peer shares, changes or unshares.
        """
        self._link, self._peer_changed = link, peer_changed
        link.rpc.notice(pb.AssetNotice, self._noticed)
        link.rpc.notice(pb.AssetGone, self._gone)
        link.rpc.handle(pb.MockQuery, self._give_mock)
        for asset in self.mine.values():
            link.rpc.tell_nowait(asset.info.to_wire())
            self._preparing.put_nowait(asset.info.name)

    def forget_peer(self) -> None:
        """Forget the assets of a peer that has left for good. Objects that it gave stay."""
        self._preparing = asyncio.Queue()
        for name in list(self.peer):
            del self.peer[name]
            self._peer_changed(name)

    def resume(self, assets: Mapping[str, KeptAsset]) -> None:
        """Load the assets of an earlier kernel."""
        self._revisions = {name: record.info.revision for name, record in assets.items()}
        self.awaiting = {name: record for name, record in assets.items() if record.shared}

    async def keep_prepared(self) -> None:
        """Let every path prepare for each shared asset, one after another, as long as the link lives."""
        assert self._link is not None
        await self._link.path_selector.wait_settled()
        while True:
            asset = self.mine.get(await self._preparing.get())
            if asset is not None:
                await self._link.path_selector.prepare(await asset.content.outgoing())
            del asset  # release it: it may be large, and unshared before the next one arrives

    async def share(self, offer: Offer, budget_words: str = "") -> OwnAsset:
        """Share an object, with its mock and budget. It replaces an asset of the same name by a new revision.

        If an earlier kernel shared exactly this content under this name, its revision continues.

        Raises:
            AuditUnavailable: it could not be recorded, and is not offered.
        """
        name, content = offer.name, offer.content
        awaited = self.awaiting.get(name)
        goes_on = awaited is not None and await awaited.is_of(content)
        revision = awaited.info.revision if awaited is not None and goes_on else None
        info = self.describe(offer, revision)
        info = dataclasses.replace(info, mock=offer.mock_words, budget=budget_words)
        asset = OwnAsset(info, content, offer.mock, offer.budgeted)
        await self._recorder.record(described(SHARE, asset.info), sync=False)
        await self._persistence.shared(asset.info, content)
        replaced = self.mine.get(name)
        self.mine[name] = asset
        self._hold(asset)
        if self.awaiting.pop(name, None) is not None and awaited is not None:
            if goes_on:
                if self._requests is not None:
                    self._requests.asset_continued(info, content)
            else:
                self._retire(awaited.info, f"{name!r} was shared again with another content; ask for that")
        if replaced is not None and replaced.info.revision != info.revision:
            self._retire(replaced.info, f"{name!r} was shared again; ask for the new revision")
        if replaced is not None:
            _unhold(replaced)
        if self._link is not None:
            self._link.rpc.tell_nowait(asset.info.to_wire())
            self._preparing.put_nowait(name)
        self._sink.changed()
        return asset

    def _hold(self, asset: OwnAsset) -> None:
        title = f"{asset.info.name}, revision {asset.info.revision}"
        asset.content.held.title = title
        self.holdings.keep(asset.content.held, OFFERED)
        if asset.mock is not None:
            asset.mock.held.title = _mock_of(title)
            self.holdings.keep(asset.mock.held, OFFERED)

    def describe(self, offer: Offer, revision: int | None = None) -> AssetInfo:
        """Return the description of an offer, for this revision or the next one."""
        name, content = offer.name, offer.content
        if revision is None:
            revision = self._revisions[name] = self._revisions.get(name, 0) + 1
        summary = content.summary
        return AssetInfo(
            name,
            revision,
            summary.kind,
            summary.detail,
            content.size_bytes,
            offer.description,
            offer.tags,
            content.lossy,
            elements=summary.elements,
        )

    def update_budget(self, name: str, revision: int, words: str) -> None:
        """Update what is shown of an asset's remaining budget on both sides."""
        asset = self.mine.get(name)
        if asset is None or asset.info.revision != revision:
            return
        info = dataclasses.replace(asset.info, budget=words)
        self.mine[name] = dataclasses.replace(asset, info=info)
        if self._link is not None:
            self._link.rpc.tell_nowait(info.to_wire())
        self._sink.changed()

    def unshare(self, info: AssetInfo) -> None:
        """Stop offering a revision. What has left has left."""
        awaited = self.awaiting.get(info.name)
        current = self.mine.get(info.name) or awaited
        if current is None or current.info.revision != info.revision:
            return
        del (self.awaiting if current is awaited else self.mine)[info.name]
        if isinstance(current, OwnAsset):
            _unhold(current)
        self._recorder.note(described(UNSHARE, info))
        self._persistence.unshared(info)
        self._retire(info, f"{info.name!r} is no longer shared")
        if self._link is not None and current is not awaited:
            for of in (info.name, _mock_of(info.name)):
                self._link.exports.forget(of)
            self._link.rpc.tell_nowait(pb.AssetGone(name=info.name, revision=info.revision))
        self._sink.changed()

    def _retire(self, info: AssetInfo, why: str) -> None:
        """Deny the requests for a revision, and withdraw its offers whose transfer has not begun."""
        if self._requests is not None:
            self._requests.asset_retired(info, why)
        if self._link is not None:
            self._link.exports.retire(info.name, info.revision, why)

    async def kept(self) -> None:
        """Wait until all changes so far are saved for a restart. Raises StateUnavailable."""
        await self._persistence.written()

    def check_mine(self, name: str, revision: int) -> OwnAsset:
        """Find an asset as `find_mine` does, for the person on this side, who is also told about assets that
        wait to be shared again.
        """
        if name in self.awaiting and name not in self.mine:
            raise AssetNotFound(
                f"{name!r} has no content, because its kernel has ended: share the object again, then answer"
            )
        return self.find_mine(name, revision)

    def check_offered(self, info: AssetInfo) -> None:
        """Raise AssetNotFound or AssetChanged if the object, or an asset that it was made from, is no longer
        shared.
        """
        if info.lineage is None:
            self.check_mine(info.name, info.revision)
            return
        for name, revision in info.lineage.assets:
            self.check_mine(name, revision)

    def find_mine(self, name: str, revision: int) -> OwnAsset:
        """Return this side's asset, for a peer that names a revision it has seen.

        Raises:
            AssetNotFound: there is no such asset, or no longer.
            AssetChanged: another revision is shared now.
        """
        asset = self.mine.get(name)
        if asset is None:
            raise AssetNotFound(f"{name!r} is not shared (any more); see duet.store for what is")
        if asset.info.revision != revision:
            raise AssetChanged(
                f"{name!r} was shared again as revision {asset.info.revision}, you asked for {revision}; "
                "take the new pointer from duet.store"
            )
        return asset

    def budgeted_rows(self, name: str) -> int:
        """Return the number of rows of an asset with a budget; 0 for any other. Any thread may call it."""
        asset = self.mine.get(name)
        return asset.budgeted.rows if asset is not None and asset.budgeted is not None else 0

    def room_for(self, name: str, size_bytes: int) -> int:
        """Return the number of bytes that the peer may still place here after `size_bytes` more under `name`.

        Raises:
            ValueRefused: these do not fit.
        """
        others = sum(item.held_bytes for item in self.received.values() if item.info.name != name)
        limit = self._settings.max_received_bytes
        if others + size_bytes > limit:
            raise ValueRefused(
                f"the peer takes at most {limit} bytes in all and has {others}; {size_bytes} more do not fit."
                " It can raise max_received_bytes in its settings, or you share() the object instead"
            )
        if len(self.received) >= self._settings.max_assets and name not in self.received:
            raise ValueRefused(f"the peer holds {len(self.received)} received objects and takes no more")
        return limit - others - size_bytes

    async def wait_for(self, name: str, revision: int) -> None:
        """Wait until the peer shares or has given an object of this name, in this revision or a later one."""
        while self._latest(name) < revision:
            self._changed.clear()
            await self._changed.wait()

    def _latest(self, name: str) -> int:
        """Return the latest revision that the peer shares or has given under a name; -1 if there is none."""
        shared, given = self.peer.get(name), self.received.get(name)
        return max(
            shared.revision if shared is not None else -1, given.info.revision if given is not None else -1
        )

    def receive(self, received: Received) -> None:
        """Keep an object that the peer gave, in place of an earlier one of the same name."""
        before = self.received.get(received.info.name)
        self.received[received.info.name] = received
        received.held.title, received.held.size_bytes = received.info.name, received.held_bytes
        self.holdings.keep(received.held, GIVEN)
        if before is not None:
            before.held.let_go(GIVEN)
        self._changed.set()
        self._sink.changed()

    async def fetch_mock(self, info: AssetInfo, limit_bytes: int) -> memoryview:
        """Fetch the encoded mock of an asset of the peer's. Raises AssetNotFound, TransferFailed, …"""
        assert self._link is not None
        query = pb.MockQuery(name=info.name, revision=info.revision)
        offer = await self._link.rpc.call(query, pb.TransferOffer)
        return await self._link.imports.pull(_mock_of(info.name), offer, limit_bytes)

    async def _give_mock(self, query: pb.MockQuery) -> pb.TransferOffer:
        assert self._link is not None
        mine = self.find_mine(query.name, query.revision)
        if mine.mock is None:
            raise AssetNotFound(f"{query.name!r} has no mock")
        outgoing = await mine.mock.outgoing()
        self.find_mine(query.name, query.revision)  # it may have been retired meanwhile
        best = self._link.path_selector.best
        return await self._link.exports.offer(
            _mock_of(query.name),
            outgoing,
            best.name if best is not None else "",
            sources=frozenset(mine.info.sources),
        )

    def _noticed(self, notice: pb.AssetNotice) -> None:
        if len(self.peer) >= self._settings.max_assets and notice.name not in self.peer:
            raise LimitExceeded(f"the peer shares over {self._settings.max_assets} assets")
        info = AssetInfo.from_wire(notice)
        self.peer[info.name] = info
        self._peer_changed(info.name)
        self._changed.set()
        self._sink.changed()

    def _gone(self, gone: pb.AssetGone) -> None:
        known = self.peer.get(gone.name)
        if known is not None and known.revision == gone.revision:
            del self.peer[gone.name]
            self._peer_changed(gone.name)
            self._sink.changed()


def _mock_of(name: str) -> str:
    return f"mock of {name}"


def _unhold(asset: OwnAsset) -> None:
    """Stop holding the content and mock of an asset for the peer."""
    asset.content.held.let_go(OFFERED)
    if asset.mock is not None:
        asset.mock.held.let_go(OFFERED)
