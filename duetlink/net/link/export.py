"""One body that the peer has been offered and has not ended: what leaves of it, and whether it may."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from duetlink.data.dedup import Manifest, cut, name_chunks
from duetlink.net.flight.body import Outgoing
from duetlink.net.flight.gate import Gate
from duetlink.net.flight.sending import StreamController
from duetlink.net.link.holding import parts_to_wire, segments
from duetlink.net.link.transfer import Transfer
from duetlink.net.paths.base import Path

# name and revision of each asset whose data is in a body
Sources = frozenset[tuple[str, int]]


@dataclass(slots=True)
class Export:
    """Belongs to the loop thread; its gate is passed on Flight's."""

    outgoing: Outgoing
    transfer: Transfer
    probe: bool = False
    sources: Sources = frozenset()
    controller: StreamController | None = None
    paused: bool = False  # by this side, and this transfer alone
    gate: Gate = field(default_factory=Gate)
    paths: dict[str, Path] = field(default_factory=dict)  # those for which there have been tickets
    moving: asyncio.Event = field(default_factory=asyncio.Event)  # nobody keeps it back, or it has ended
    _manifest: asyncio.Future[bytes] | None = None

    def __post_init__(self) -> None:
        self.moving.set()

    def follow(self) -> None:
        """Let what has been noted in the transfer's record take effect."""
        self.gate.pause(self.transfer.paused)
        if self.transfer.paused:
            self.moving.clear()
        else:
            self.moving.set()

    async def manifest(self, key: bytes) -> bytes:
        """Its chunks by name; made once, however often it is asked for. Raises AssetChanged."""
        if self._manifest is None:
            self._manifest = asyncio.ensure_future(asyncio.to_thread(_manifest, self.outgoing, key))
        return await asyncio.shield(self._manifest)

    def end(self) -> None:
        """Nothing leaves any more."""
        self.gate.end()
        self.moving.set()


def _manifest(outgoing: Outgoing, key: bytes) -> bytes:
    body = list(outgoing.pieces())
    cuts = cut(body, segments(parts_to_wire(outgoing.parts), outgoing.size_bytes))
    manifest = Manifest(cuts, name_chunks(body, cuts, key)).to_bytes()
    for leaf in range(outgoing.leaves):  # nothing is told of what has changed since
        outgoing.verify_leaf(leaf)
    return manifest
