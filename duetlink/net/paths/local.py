"""The path `local`: both notebooks run on one host as one user. The sender's memory is mapped, not sent."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from duetlink.base.runtime import shared_memory
from duetlink.base.runtime.holdings import Retained
from duetlink.base.runtime.mappable import LABEL_BYTES, supported
from duetlink.base.wire import schema_pb2 as pb
from duetlink.errors import (
    DuetError,
    PathUnavailable,
    RemoteProtocolError,
    TicketRefused,
    TransferFailed,
)
from duetlink.net.flight.body import Outgoing, ReceiveBuffer
from duetlink.net.flight.fingerprint import LEAF_BYTES, leaf_digest
from duetlink.net.flight.sending import Order
from duetlink.net.paths.base import Path, PathContext
from duetlink.net.paths.shared_memory import Region, SharedMemory, open_region

NONCE_BYTES = 32

# A value of at most this size is sent inline: the message that describes shared memory is as large.
INLINE_BYTES = 16 * 1024

# Each uses a file descriptor, and the default limit of a process is 1,024.
MOST_READY = 64

READY = "the peer may fetch it"
FETCHED = "the peer fetches it"

# So small that a piece is still in the cache when it is digested after it was written.
_PIECE_BYTES = 1024 * 1024

# A smaller body is copied before a progress bar would appear.
_LONG_BYTES = 256 * 1024 * 1024

# Two threads keep the kernel busy with providing fresh pages.
_WRITERS = 2


@dataclass(eq=False, slots=True)
class _Placed:
    """A body in shared memory, and the entry that says why it is kept."""

    outgoing: Outgoing
    memory: SharedMemory
    held: Retained


class LocalPath(Path):
    """Sends bodies by sealed shared memory; each is written only once.

    A body that is in sealed memory already (`base/runtime/mappable.py`) is not written at all.

    The MOST_READY bodies that were used last stay there while they are kept at all. Any other is written when
    it is fetched, and stays until the peer has mapped it.
    """

    name: ClassVar[str] = "local"
    query = pb.LocalChallenge
    measurable: ClassVar[bool] = False

    def __init__(self, context: PathContext) -> None:
        super().__init__(context)
        self._placed: dict[Outgoing, asyncio.Future[_Placed]] = {}
        self._ready: dict[_Placed, None] = {}  # least recently used first
        self._transfers: dict[bytes, _Placed] = {}  # by transfer number
        self._held: set[SharedMemory] = set()
        self._written: dict[Outgoing, list[int]] = {}  # bytes so far, by thread, of bodies being written
        self._same_host = self._closed = False
        context.rpc.handle(pb.LocalChallenge, self._prove)

    async def open(self) -> None:
        """Ask the peer to write a nonce of ours to memory that only the same user on the same host can
        read.
        """
        if not supported():
            raise PathUnavailable("this system has no memfd (Linux only)")
        nonce = secrets.token_bytes(NONCE_BYTES)
        try:
            proof = await self._context.rpc.call(pb.LocalChallenge(nonce=nonce), pb.LocalProof)
            body = open_region(_region(proof.memory, NONCE_BYTES))
        except DuetError as error:
            raise PathUnavailable(f"the peer is not on this host as this user: {error}") from None
        if not hmac.compare_digest(bytes(body), nonce):
            raise PathUnavailable("the peer is not on this host as this user: it did not show the nonce")
        self._same_host = True

    async def prepare(self, outgoing: Outgoing) -> None:
        """Copy a body to shared memory before it is asked for, so that a later request waits only for a
        message.
        """
        # a smaller one is sent inline
        is_cheap = outgoing.sealed is not None or outgoing.size_bytes <= self._context.prepare_limit_bytes
        fits = outgoing.size_bytes > INLINE_BYTES and is_cheap
        if self._same_host and fits and outgoing.held.is_kept:
            await self._find(outgoing)

    def takes_long(self, outgoing: Outgoing) -> bool:
        placing = self._placed.get(outgoing)
        is_there = outgoing.sealed is not None or (placing is not None and placing.done())
        return outgoing.size_bytes >= _LONG_BYTES and not is_there

    def placed_bytes(self, outgoing: Outgoing) -> int:
        return sum(self._written.get(outgoing, ()))

    async def offer(self, transfer_id: bytes, outgoing: Outgoing, order: Order) -> pb.Ticket:
        self._context.holdings.keep(outgoing.held, FETCHED, transfer_id)
        try:
            placed = await self._find(outgoing)
            while not placed.memory.is_open:  # it was evicted at the same moment
                placed = await self._find(outgoing)
        except BaseException:
            if transfer_id not in self._transfers:
                outgoing.held.let_go(FETCHED, transfer_id)
            raise
        self._transfers[transfer_id] = placed
        self._context.holdings.keep(placed.held, FETCHED, transfer_id)
        self._keep_ready(placed)
        return pb.Ticket(path=self.name, memory=_to_wire(placed.memory.region))

    def release(self, transfer_id: bytes) -> None:
        placed = self._transfers.pop(transfer_id, None)
        if placed is not None:
            placed.held.let_go(FETCHED, transfer_id)
            placed.outgoing.held.let_go(FETCHED, transfer_id)

    async def _find(self, outgoing: Outgoing) -> _Placed:
        placing = self._placed.get(outgoing)
        if placing is None:
            placing = self._placed[outgoing] = asyncio.ensure_future(self._place(outgoing))
            placing.add_done_callback(partial(self._note_failure, outgoing))
        return await asyncio.shield(placing)

    def _note_failure(self, outgoing: Outgoing, placing: asyncio.Future[_Placed]) -> None:
        if placing.cancelled() or placing.exception() is not None:
            self._placed.pop(outgoing, None)  # let the next request try again

    def _keep_ready(self, placed: _Placed) -> None:
        """Keep it as the most recently used body; evict the least recently used one if there are too many."""
        self._ready.pop(placed, None)
        self._ready[placed] = None
        self._context.holdings.keep(placed.held, READY)
        if len(self._ready) > MOST_READY:
            self._evict(next(iter(self._ready)))

    def _evict(self, placed: _Placed) -> None:
        self._ready.pop(placed, None)
        placed.held.let_go(READY)

    async def fetch(self, ticket: pb.Ticket, receive_buffer: ReceiveBuffer) -> None:
        if ticket.WhichOneof("way") != "memory":
            raise TransferFailed("the peer's ticket for path local names no shared memory")
        try:
            body = open_region(_region(ticket.memory, receive_buffer.size_bytes))
        except PathUnavailable as error:  # the path works, so it is only this memory that was freed
            raise TicketRefused(str(error)) from None
        receive_buffer.map(body)

    async def close(self) -> None:
        self._closed = True
        for placing in list(self._placed.values()):
            placing.cancel()
        placed = await asyncio.gather(*self._placed.values(), return_exceptions=True)
        for one in placed:
            if isinstance(one, _Placed):
                one.held.let_all_go()
        for memory in self._held:
            memory.close()
        self._held.clear()
        self._placed.clear()
        self._transfers.clear()

    async def _prove(self, challenge: pb.LocalChallenge) -> pb.LocalProof:
        if len(challenge.nonce) != NONCE_BYTES:
            raise RemoteProtocolError(f"a local challenge has {NONCE_BYTES} bytes")
        if not supported():
            raise PathUnavailable("the peer's system has no memfd (Linux only)")
        memory = SharedMemory(secrets.token_bytes(LABEL_BYTES), NONCE_BYTES)
        self._held.add(memory)
        memory.write(memoryview(challenge.nonce), 0)
        memory.seal()
        # long enough for the peer to read it
        asyncio.get_running_loop().call_later(10.0, _drop, weakref.ref(self), memory)
        return pb.LocalProof(memory=_to_wire(memory.region))

    async def _place(self, outgoing: Outgoing) -> _Placed:
        if self._closed:  # `prepare` may run this late, and the memory would never be freed
            raise PathUnavailable("the link is closed")
        if outgoing.sealed is not None:
            memory = SharedMemory.of(outgoing.sealed)
            self._held.add(memory)
        else:
            memory = await self._write(outgoing)
        if not outgoing.held.is_kept:
            self._drop(memory)
            raise PathUnavailable("it is no longer offered")
        # what is in sealed memory counts with the object itself
        size_bytes = outgoing.size_bytes if outgoing.sealed is None else 0
        title = f"shared memory of {outgoing.held.title or 'a value'}"
        held = Retained(title, size_bytes, descriptors=1, shared_bytes=size_bytes)
        placed = _Placed(outgoing, memory, held)
        no_longer_kept = partial(self._evict, placed)
        outgoing.held.at_end(no_longer_kept)

        def end() -> None:
            self._ready.pop(placed, None)
            self._placed.pop(outgoing, None)
            outgoing.held.not_at_end(no_longer_kept)
            self._drop(memory)

        held.at_end(end)
        self._keep_ready(placed)
        return placed

    async def _write(self, outgoing: Outgoing) -> SharedMemory:
        """Copy a body into new memory, and seal it."""
        if not shared_memory.has_room(outgoing.size_bytes):
            available = shared_memory.available_bytes()
            raise PathUnavailable(
                f"shared memory has no room: {outgoing.size_bytes} bytes asked, {available} available"
            )
        memory = SharedMemory(secrets.token_bytes(LABEL_BYTES), outgoing.size_bytes)
        self._held.add(memory)
        loop = asyncio.get_running_loop()
        share = -(-outgoing.leaves // _WRITERS)
        written = self._written[outgoing] = [0] * _WRITERS
        writers = [
            loop.run_in_executor(
                self._context.reading,
                _write_leaves,
                memory,
                outgoing,
                range(first, min(first + share, outgoing.leaves)),
                written,
                number,
            )
            for number, first in enumerate(range(0, outgoing.leaves, max(share, 1)))
        ]
        try:
            await asyncio.shield(asyncio.gather(*writers))
        except BaseException:
            await asyncio.wait(writers)  # they are still writing to the descriptor
            self._drop(memory)
            raise
        finally:
            del self._written[outgoing]
        memory.seal()
        return memory

    def _drop(self, memory: SharedMemory) -> None:
        self._held.discard(memory)
        memory.close()


def _drop(path: weakref.ref[LocalPath], memory: SharedMemory) -> None:
    # a weak reference, so that the loop's timer does not keep a closed link in memory
    if (alive := path()) is not None:
        alive._drop(memory)


def _write_leaves(
    memory: SharedMemory, outgoing: Outgoing, leaves: range, counts: list[int], number: int
) -> None:
    """Write some leaves, on an I/O thread, and count their bytes in `counts[number]`.

    Raises AssetChanged if one has changed.
    """

    def written(leaf: int) -> Iterator[memoryview]:
        position = leaf * LEAF_BYTES
        for piece in outgoing.leaf_pieces(leaf, _PIECE_BYTES):
            memory.write(piece, position)
            yield piece
            position += len(piece)
            counts[number] += len(piece)

    for leaf in leaves:
        outgoing.check_leaf(leaf, leaf_digest(written(leaf)))


def _region(memory: pb.SharedMemory, size_bytes: int) -> Region:
    if memory.size_bytes != size_bytes or len(memory.label) != LABEL_BYTES:
        raise TransferFailed("the peer's shared memory is not the one that was announced")
    return Region(
        memory.pid, memory.fd, memory.label, memory.size_bytes, memory.start_bytes, memory.total_bytes
    )


def _to_wire(region: Region) -> pb.SharedMemory:
    return pb.SharedMemory(
        pid=region.pid,
        fd=region.fd,
        label=region.label,
        size_bytes=region.size_bytes,
        start_bytes=region.start_bytes,
        total_bytes=region.total_bytes,
    )
