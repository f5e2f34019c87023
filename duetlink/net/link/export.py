"""One body that this side has offered and the peer has not finished."""

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

# name and revision of each asset whose data a body contains
Sources = frozenset[tuple[str, int]]


@dataclass(slots=True)
class Export:
    """Belongs to the loop thread, except for its gate, at which the Flight server's threads wait."""

    outgoing: Outgoing
    transfer: Transfer
    probe: bool = False
    sources: Sources = frozenset()
    controller: StreamController | None = None
    paused: bool = False  # this transfer alone was paused by this side
    gate: Gate = field(default_factory=Gate)
    paths: dict[str, Path] = field(default_factory=dict)  # paths for which tickets were made, by name
    moving: asyncio.Event = field(
        default_factory=asyncio.Event
    )  # set while it is not paused, and when it has ended
    _manifest: asyncio.Future[bytes] | None = None

    def __post_init__(self) -> None:
        self.moving.set()

    def follow(self) -> None:
        """Open or shut the gate, as the transfer's record says."""
        self.gate.pause(self.transfer.paused)
        if self.transfer.paused:
            self.moving.clear()
        else:
            self.moving.set()

    async def manifest(self, key: bytes) -> bytes:
        """Return the names of the body's chunks, under `key`; computed only once. Raises AssetChanged."""
        if self._manifest is None:
            self._manifest = asyncio.ensure_future(asyncio.to_thread(_manifest, self.outgoing, key))
        return await asyncio.shield(self._manifest)

    def end(self) -> None:
        """Stop sending. Threads that wait at the gate are woken."""
        self.gate.end()
        self.moving.set()


def _manifest(outgoing: Outgoing, key: bytes) -> bytes:
    body = list(outgoing.pieces())
    cuts = cut(body, segments(parts_to_wire(outgoing.parts), outgoing.size_bytes))
    manifest = Manifest(cuts, name_chunks(body, cuts, key)).to_bytes()
    for leaf in range(
        outgoing.leaves
    ):  # raises AssetChanged: the peer must not learn of content that changed after it was offered
        outgoing.verify_leaf(leaf)
    return manifest
