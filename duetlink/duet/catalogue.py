"""Loop side of the store: what each side shares and what was received, kept equal by pushes.

Only the loop thread writes. Other threads read, by single look-ups and copies of whole dictionaries.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from duetlink.audit.entry import SHARE, UNSHARE
from duetlink.duet.asset import AssetInfo, Content
from duetlink.duet.recorder import Recorder, described
from duetlink.errors import AssetChanged, AssetNotFound, LimitExceeded, ValueRefused
from duetlink.link.link import Link
from duetlink.settings import Settings
from duetlink.wire import schema_pb2 as pb


@dataclass(frozen=True, slots=True)
class Mine:
    """An asset of this side."""

    info: AssetInfo
    content: Content


@dataclass(frozen=True, slots=True)
class Received:
    """An object that the peer gave."""

    info: AssetInfo
    value: Any
    held_bytes: int  # the memory that it takes here


class Catalogue:
    """The assets of both sides."""

    def __init__(self, settings: Settings, recorder: Recorder) -> None:
        self._settings = settings
        self._recorder = recorder
        self._link: Link | None = None
        self._revisions: dict[str, int] = {}
        self._changed = asyncio.Event()
        self._preparing: asyncio.Queue[None] = asyncio.Queue()
        self.mine: dict[str, Mine] = {}
        self.peer: dict[str, AssetInfo] = {}
        self.received: dict[str, Received] = {}
        # called when a revision of this side's is no longer offered
        self.on_retired: Callable[[AssetInfo, str], None] = lambda info, why: None

    def attach(self, link: Link) -> None:
        """Tell a fresh peer of everything, and listen to it."""
        self._link = link
        link.rpc.notice(pb.AssetNotice, self._noticed)
        link.rpc.notice(pb.AssetGone, self._gone)
        for asset in self.mine.values():
            link.rpc.tell_nowait(asset.info.to_wire())
        self._preparing.put_nowait(None)

    async def keep_prepared(self) -> None:
        """Make what is shared ready to leave, one asset after another, for as long as the link lives."""
        assert self._link is not None
        await self._link.ladder.wait_settled()
        ready: weakref.WeakSet[Content] = weakref.WeakSet()
        while True:
            await self._preparing.get()
            for asset in list(self.mine.values()):
                if asset.content not in ready:
                    ready.add(asset.content)
                    await self._link.ladder.prepare(await asset.content.outgoing())

    async def share(self, name: str, content: Content, description: str, tags: tuple[str, ...]) -> Mine:
        """Offer `content` under `name`; an asset of that name is replaced by a new revision.

        Raises:
            AuditUnavailable: it could not be put down, and is not offered.
        """
        asset = Mine(self.describe(name, content, description, tags), content)
        await self._recorder.record(described(SHARE, asset.info), sync=False)
        replaced = self.mine.get(name)
        self.mine[name] = asset
        if replaced is not None:
            self.on_retired(replaced.info, f"{name!r} was shared again; ask for the new revision")
        if self._link is not None:
            self._link.rpc.tell_nowait(asset.info.to_wire())
            self._preparing.put_nowait(None)
        return asset

    def describe(self, name: str, content: Content, description: str, tags: tuple[str, ...]) -> AssetInfo:
        """The next revision of `name`."""
        revision = self._revisions[name] = self._revisions.get(name, 0) + 1
        summary = content.summary
        return AssetInfo(
            name,
            revision,
            summary.kind,
            summary.detail,
            content.size_bytes,
            description,
            tags,
            content.lossy,
            summary.elements,
        )

    def unshare(self, info: AssetInfo) -> None:
        """Offer a revision no longer. What has left has left."""
        current = self.mine.get(info.name)
        if current is None or current.info.revision != info.revision:
            return
        del self.mine[info.name]
        self._recorder.note(described(UNSHARE, info))
        self.on_retired(info, f"{info.name!r} is no longer shared")
        if self._link is not None:
            self._link.rpc.tell_nowait(pb.AssetGone(name=info.name, revision=info.revision))

    def find_mine(self, name: str, revision: int) -> Mine:
        """This side's asset, for a peer that names a revision it saw.

        Raises:
            AssetNotFound: no such asset (any more).
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

    def room_for(self, name: str, size_bytes: int) -> int:
        """How many bytes are left when the peer has placed `size_bytes` more here under `name`.

        Raises:
            ValueRefused: it may not.
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

    async def wait_for(self, name: str) -> None:
        """Return once the peer shares or has given an object of that name."""
        while name not in self.peer and name not in self.received:
            self._changed.clear()
            await self._changed.wait()

    def receive(self, received: Received) -> None:
        """Keep what the peer gave."""
        self.received[received.info.name] = received
        self._changed.set()

    def _noticed(self, notice: pb.AssetNotice) -> None:
        if len(self.peer) >= self._settings.max_assets and notice.name not in self.peer:
            raise LimitExceeded(f"the peer shares over {self._settings.max_assets} assets")
        info = AssetInfo.from_wire(notice)
        self.peer[info.name] = info
        self._changed.set()

    def _gone(self, gone: pb.AssetGone) -> None:
        known = self.peer.get(gone.name)
        if known is not None and known.revision == gone.revision:
            del self.peer[gone.name]
