"""The receiving side: pulls an offered body over the best path, and continues over another if one fails."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING

from duetlink.base.runtime.holdings import Holdings
from duetlink.base.wire import failures
from duetlink.base.wire import schema_pb2 as pb
from duetlink.data.tuning.compression import FEWEST_BYTES
from duetlink.errors import (
    AssetChanged,
    LimitExceeded,
    PathUnavailable,
    TicketRefused,
    TransferCancelled,
    TransferFailed,
    UndecodableChunk,
)
from duetlink.net.flight.body import ReceiveBuffer
from duetlink.net.flight.receiving import Decoding
from duetlink.net.link.agreement import Agreement
from duetlink.net.link.holding import Holding, pieces
from duetlink.net.link.pull import Pull
from duetlink.net.link.pulls import Pulls
from duetlink.net.link.traffic import Traffic
from duetlink.net.link.transfer import CANCELLED, COMPLETE, FAILED, Transfer
from duetlink.net.paths.base import Path
from duetlink.net.paths.local import LocalPath
from duetlink.net.paths.path_selector import PathSelector
from duetlink.net.peer.rpc import Rpc

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Seconds, plus the time that _SLOW_BYTES_PER_S needs: a ticket for `local` arrives only when the whole body
# was written to shared memory.
TICKET_TIMEOUT_S = 60.0
_SLOW_BYTES_PER_S = 100e6
_SEARCH_BYTES_PER_S = 200e6  # about how fast both sides together, one after the other, compute manifests
MAX_TRIES = 3  # on one path, without progress in between
UPGRADE_MIN_BYTES = 8 * 1024 * 1024  # with less than this left, changing the path takes longer than it saves

# A path is stuck if no bytes came for STALL_S, and for STALL_PAUSES times its longest pause so far. Before
# the first bytes have come, it is stuck after STALL_FIRST_S.
STALL_FIRST_S = 10.0
STALL_S = 3.0
STALL_PAUSES = 4
_CHECK_S = 0.5

SPEED_WINDOW_S = 2.0


class Imports:
    """Pulls the bodies that the peer offers. Methods belong to the loop thread."""

    def __init__(
        self,
        rpc: Rpc,
        path_selector: PathSelector,
        traffic: Traffic,
        decoding: Decoding,
        agreement: Agreement,
        held_bytes: int,
        holdings: Holdings,
    ) -> None:
        self._agreement = agreement
        self._holding = Holding(held_bytes, holdings)
        self._decoding = decoding
        self._rpc = rpc
        self._path_selector = path_selector
        self._traffic = traffic
        self.pulls = Pulls(rpc)

    async def pull(
        self,
        name: str,
        offer: pb.TransferOffer,
        limit_bytes: int,
        on_start: Callable[[Transfer], None] = lambda transfer: None,
    ) -> memoryview:
        """Receive the offered body: complete, verified and writable. The caller owns it.

        If cancelled, the sender is notified and no part of the body is kept.

        Raises:
            TransferCancelled: the sender cancelled it, or this side by the transfer's own `cancel`.
            LimitExceeded: it is larger than `limit_bytes`; nothing was allocated.
            AssetChanged: the bytes that arrived are not the revision that was offered.
            TransferFailed: every path failed; the message gives the reason for each.
        """
        if offer.size_bytes > limit_bytes:
            raise LimitExceeded(
                f"{name!r} has {offer.size_bytes} bytes, more than the {limit_bytes} that are allowed here; "
                "raise max_value_bytes in the settings if you want it"
            )
        elapsed_s = min(offer.elapsed_us / 1e6, TICKET_TIMEOUT_S)
        transfer = self._traffic.begin(name, "in", offer.size_bytes, self.pulls, elapsed_s)
        on_start(transfer)
        if offer.inline:
            body = self._inline(offer, transfer)
            self._holding.keep(name, body, offer)
            return body
        pull = Pull(transfer)
        error: BaseException | None = None
        try:
            async with pull:
                self.pulls.add(offer.transfer_id, pull)
                receive_buffer = await self._receive_body(offer, pull)
            body = receive_buffer.body()
            if not receive_buffer.mapped:
                self._holding.keep(name, body, offer)
            return body
        except BaseException as caught:
            error = caught
            raise
        finally:
            self.pulls.remove(offer.transfer_id, pull)
            self._end(offer, transfer, error)
            error = None  # the traceback refers to this frame: break the reference cycle

    async def _receive_body(self, offer: pb.TransferOffer, pull: Pull) -> ReceiveBuffer:
        """Return a buffer with the whole body, verified."""
        transfer = pull.transfer
        # counted on the path's thread
        receive_buffer = ReceiveBuffer(offer.size_bytes, partial(self._traffic.counting.add, transfer))
        try:
            await pull.wait_moving()
            adopted = await self._adopt(offer, receive_buffer, pull)
            await self._fill(offer, receive_buffer, pull)
            helped = adopted or receive_buffer.reference is not None
            if (
                helped and receive_buffer.digest() != offer.fingerprint
            ):  # a kept body was changed on this side while it was being used: fetch everything
                receive_buffer.discard()
                receive_buffer = ReceiveBuffer(offer.size_bytes)
                await self._fill(offer, receive_buffer, pull)
            if not receive_buffer.mapped and receive_buffer.digest() != offer.fingerprint:
                raise AssetChanged(
                    f"{transfer.name!r} changed at its owner while it was being sent, or since it was "
                    "shared; the owner should share it again, or share a copy"
                )
        except BaseException:
            receive_buffer.discard()  # the error may be kept for long, and keeps this frame alive
            raise
        return receive_buffer

    def _end(self, offer: pb.TransferOffer, transfer: Transfer, error: BaseException | None) -> None:
        """Record how the transfer ended, and notify the sender."""
        if isinstance(error, asyncio.CancelledError):
            error = TransferCancelled("the call that waited for it was cancelled")
        if error is None:
            transfer.end(COMPLETE)
        else:
            transfer.end(CANCELLED if isinstance(error, TransferCancelled) else FAILED, str(error))
        self._rpc.tell_nowait(
            pb.TransferEnd(
                transfer_id=offer.transfer_id,
                complete=error is None,
                path=transfer.path,
                failure=failures.to_wire(error) if isinstance(error, Exception) else None,
                decoding=[
                    pb.DecodeTime(codec=codec, raw_bytes=raw_bytes, elapsed_us=round(elapsed_s * 1e6))
                    for codec, (raw_bytes, elapsed_s) in self._decoding.take().items()
                ],
            )
        )

    async def _adopt(self, offer: pb.TransferOffer, receive_buffer: ReceiveBuffer, pull: Pull) -> bool:
        """Copy what this side already has into the buffer. Return False if that was nothing."""
        if offer.sent_before:
            whole = await asyncio.to_thread(self._holding.whole, offer.fingerprint, offer.size_bytes)
            if whole is not None:
                await asyncio.to_thread(receive_buffer.adopt, [(0, whole)])
                return True
        name = pull.transfer.name
        held = self._holding.similar(name, offer.size_bytes)
        if not held or not self._is_search_worthwhile():
            return False
        query = pb.ManifestQuery(transfer_id=offer.transfer_id)
        timeout_s = _ticket_timeout_s(offer.size_bytes)
        manifest = await pull.step(lambda: self._rpc.call(query, pb.Manifest, timeout_s=timeout_s))
        found = await asyncio.to_thread(pieces, manifest, offer.size_bytes, held)
        await asyncio.to_thread(receive_buffer.adopt, found)
        receive_buffer.reference = await asyncio.to_thread(self._holding.version, name, offer.size_bytes)
        return bool(found)

    def _is_search_worthwhile(self) -> bool:
        """Return True if searching the kept bodies is faster than the path, or the fewest bytes are
        wanted.
        """
        best = self._path_selector.best
        if best is None or best.name == LocalPath.name:
            return False
        if self._agreement.compression.objective == FEWEST_BYTES:
            return True
        (speed,) = (
            status.bytes_per_s for status in self._path_selector.statuses() if status.name == best.name
        )
        return speed is None or speed < _SEARCH_BYTES_PER_S

    def _inline(self, offer: pb.TransferOffer, transfer: Transfer) -> memoryview:
        if len(offer.inline) != offer.size_bytes:
            transfer.end(FAILED)
            raise TransferFailed(f"the peer announced {offer.size_bytes} bytes but sent {len(offer.inline)}")
        transfer.path = "inline"
        self._traffic.count(transfer, offer.size_bytes, offer.size_bytes)
        transfer.end(COMPLETE)
        return memoryview(bytearray(offer.inline))

    async def _fill(self, offer: pb.TransferOffer, receive_buffer: ReceiveBuffer, pull: Pull) -> None:
        transfer = pull.transfer
        avoid: dict[str, str] = {}  # paths that failed for this transfer, and the reasons
        tries: dict[str, int] = {}  # by path, since its last progress
        plain = False  # ask the sender for unencoded blocks
        ticket: pb.Ticket | None = None
        whole = (
            receive_buffer.missing == [(0, receive_buffer.size_bytes)] and receive_buffer.reference is None
        )
        if offer.HasField("ticket") and whole:
            ticket = offer.ticket
        while not receive_buffer.complete:
            try:
                path = await pull.step(lambda: self._path_selector.wait_best(avoid))
            except PathUnavailable as error:
                raise TransferFailed(
                    f"{transfer.name!r} stopped at {receive_buffer.position_bytes} of "
                    f"{receive_buffer.size_bytes} bytes: {error}; run it again to try once more"
                ) from None
            before = receive_buffer.position_bytes
            try:
                if ticket is None or ticket.path != path.name:
                    query = _ticket_query(offer.transfer_id, path, receive_buffer, plain)
                    ticket = await pull.step(partial(self._ask_ticket, query, receive_buffer.size_bytes))
            except PathUnavailable as error:  # the sender cannot use it, e.g. no room in shared memory
                avoid[path.name] = str(error)
                continue
            transfer.path = path.name
            if path.name != LocalPath.name:
                transfer.placed_bytes = 0
            try:
                await self._fetch(path, ticket, receive_buffer, pull, avoid)
                why = "the peer's stream ended early"
            except TicketRefused as refused:
                why = str(refused)
            except UndecodableChunk as undecodable:
                why = str(undecodable)
                plain = True
            except PathUnavailable as broken:
                self._path_selector.mark_down(path, broken)
                why = str(broken)
            ticket = None
            if receive_buffer.position_bytes > before:
                tries.pop(path.name, None)
            elif not receive_buffer.stopped:
                tries[path.name] = tries.get(path.name, 0) + 1
                if tries[path.name] >= MAX_TRIES:
                    avoid[path.name] = why

    async def _ask_ticket(self, query: pb.TicketQuery, size_bytes: int) -> pb.Ticket:
        return await self._rpc.call(query, pb.Ticket, timeout_s=_ticket_timeout_s(size_bytes))

    async def _fetch(
        self,
        path: Path,
        ticket: pb.Ticket,
        receive_buffer: ReceiveBuffer,
        pull: Pull,
        avoid: Mapping[str, str],
    ) -> None:
        """Fetch by `path` until the body is complete, the path breaks or is stuck, or a better one comes up.

        Paths in `avoid` do not count as better.
        """
        receive_buffer.resume()
        fetching = asyncio.ensure_future(path.fetch(ticket, receive_buffer))
        better = asyncio.ensure_future(self._path_selector.wait_better_than(path, avoid))
        stuck = asyncio.ensure_future(self._wait_stuck(path, receive_buffer, pull))
        try:
            await asyncio.wait((fetching, better, stuck), return_when=asyncio.FIRST_COMPLETED)
            if not (fetching.done() or stuck.done()):
                if receive_buffer.size_bytes - receive_buffer.position_bytes >= UPGRADE_MIN_BYTES:
                    receive_buffer.stop()  # the fetch ends after the current chunk
                await asyncio.wait((fetching, stuck), return_when=asyncio.FIRST_COMPLETED)
            if not fetching.done():
                raise PathUnavailable(f"nothing came over it for {stuck.result():.0f} s")
            await fetching
        finally:
            better.cancel()
            stuck.cancel()
            if not fetching.done():
                fetching.cancel()
                await asyncio.wait((fetching,))
            if not fetching.cancelled():
                fetching.exception()  # retrieve the error: it may have failed because the pull was ended

    async def _wait_stuck(self, path: Path, receive_buffer: ReceiveBuffer, pull: Pull) -> float:
        """Wait until the path is stuck, and return for how many seconds no bytes have come.

        Time in which the transfer is paused does not count. Meanwhile, report the path's speed to the path
        selector.
        """
        position_bytes = noted_bytes = receive_buffer.position_bytes
        since_s = noted_s = time.monotonic()
        longest_s, limit_s = 0.0, STALL_FIRST_S
        while True:
            await asyncio.sleep(_CHECK_S)
            now_s = time.monotonic()
            if pull.transfer.paused:  # a pause says nothing about the path
                position_bytes = noted_bytes = receive_buffer.position_bytes
                since_s = noted_s = now_s
                continue
            if receive_buffer.position_bytes != position_bytes or self._path_selector.paused:
                longest_s = max(longest_s, now_s - since_s)
                position_bytes, since_s = receive_buffer.position_bytes, now_s
                limit_s = max(STALL_S, STALL_PAUSES * longest_s)
            elif now_s - since_s > limit_s:
                return now_s - since_s
            if now_s - noted_s >= SPEED_WINDOW_S:
                if path.measurable and position_bytes > noted_bytes:
                    self._path_selector.note_speed(path, (position_bytes - noted_bytes) / (now_s - noted_s))
                noted_bytes, noted_s = position_bytes, now_s


def _ticket_timeout_s(size_bytes: int) -> float:
    return TICKET_TIMEOUT_S + size_bytes / _SLOW_BYTES_PER_S


def _ticket_query(
    transfer_id: bytes, path: Path, receive_buffer: ReceiveBuffer, plain: bool
) -> pb.TicketQuery:
    return pb.TicketQuery(
        transfer_id=transfer_id,
        path=path.name,
        missing=[position for pair in receive_buffer.missing for position in pair],
        plain=plain,
        reference=receive_buffer.reference.fingerprint if receive_buffer.reference else b"",
    )
