"""The sending side: bodies that the peer has been offered, and the tickets for them."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from duetlink.dedup import Manifest, cut, name_chunks
from duetlink.errors import DuetError, LimitExceeded, PathUnavailable, TicketRefused
from duetlink.flight.body import Outgoing
from duetlink.flight.sending import Course, Order, PlainCourse
from duetlink.link.holding import Versions, parts_to_wire, segments
from duetlink.link.traffic import Traffic
from duetlink.link.transfer import CANCELLED, COMPLETE, FAILED, RUNNING, Transfer
from duetlink.paths.ladder import Ladder
from duetlink.paths.local import LocalPath
from duetlink.peer.rpc import Rpc
from duetlink.settings import Settings
from duetlink.tuning import Tuner
from duetlink.wire import schema_pb2 as pb

TRANSFER_ID_BYTES = 16
_LOCAL_INLINE_BYTES = 16 * 1024
KEY_BYTES = 32
_REMEMBERED = 1024  # fingerprints
_MAX_RANGES = 1 << 17
_PLAIN_CHUNK_BYTES = 64 * 1024  # small: a probe of a slow path should bring several
_TINY_BYTES = 512  # so few ride along in any case
MAX_OPEN = 256  # offers that the peer has not ended


@dataclass(slots=True)
class _Export:
    outgoing: Outgoing
    transfer: Transfer
    probe: bool = False
    course: Course | None = None
    manifest: asyncio.Future[bytes] | None = None


class Exports:
    """Offers of this side. Methods belong to the loop thread."""

    def __init__(self, rpc: Rpc, ladder: Ladder, traffic: Traffic, tuner: Tuner, settings: Settings) -> None:
        self._tuner = tuner
        self._ladder = ladder
        self._traffic = traffic
        self._inline_limit_bytes = settings.inline_limit_bytes
        self._open: dict[bytes, _Export] = {}
        self._loop = asyncio.get_running_loop()
        # fingerprints of what the peer has had: it may have kept it
        self._delivered: OrderedDict[bytes, None] = OrderedDict()
        self._versions = Versions(settings.held_bytes)
        self._key = secrets.token_bytes(KEY_BYTES)
        rpc.handle(pb.TicketQuery, self._ticket)
        rpc.handle(pb.ManifestQuery, self._describe)
        rpc.notice(pb.TransferEnd, self._ended)

    async def offer(self, name: str, outgoing: Outgoing, path: str = "") -> pb.TransferOffer:
        """An offer of `outgoing`, for the peer to pull: inline where small, else with a ticket for `path`.

        Raises:
            LimitExceeded: the peer holds MAX_OPEN offers and has ended none.
            AssetChanged: the content is no longer what was fingerprinted.
        """
        offer = pb.TransferOffer(
            transfer_id=secrets.token_bytes(TRANSFER_ID_BYTES),
            size_bytes=outgoing.size_bytes,
            fingerprint=outgoing.fingerprint,
            sent_before=outgoing.size_bytes > _TINY_BYTES and outgoing.fingerprint in self._delivered,
        )
        transfer = self._traffic.begin(name, "out", outgoing.size_bytes)
        limit_bytes = self._inline_limit_bytes
        if path == LocalPath.name:  # mapping overtakes the data channel earlier than a network path does
            limit_bytes = min(limit_bytes, _LOCAL_INLINE_BYTES)
        if not offer.sent_before:
            offer.parts.extend(parts_to_wire(outgoing.parts))
        if outgoing.size_bytes <= limit_bytes and not offer.sent_before:
            offer.inline = outgoing.read()
            transfer.path = "inline"
            self._traffic.count(transfer, outgoing.size_bytes, outgoing.size_bytes)
            transfer.end(COMPLETE)
            self._note_delivered(outgoing)
            return offer
        try:
            self._check_room()
        except LimitExceeded:
            transfer.end(CANCELLED)
            raise
        self._open[offer.transfer_id] = _Export(outgoing, transfer)
        if path and (not offer.sent_before or path == LocalPath.name):  # what is mapped is not held
            try:
                started_s = time.monotonic()
                offer.ticket.CopyFrom(await self._make_ticket(offer.transfer_id, path, outgoing.whole))
                offer.elapsed_us = round((time.monotonic() - started_s) * 1e6)
            except PathUnavailable:
                pass  # the receiver will ask for another
            except (DuetError, asyncio.CancelledError):
                self.withdraw(offer)
                raise
        return offer

    async def offer_probe(self, outgoing: Outgoing, path: str) -> pb.TransferOffer:
        """An offer of bytes that are no value, for the peer to measure `path`; it counts as no transfer.

        Raises:
            PathUnavailable, LimitExceeded: not by this path, not now.
        """
        self._check_room()
        offer = pb.TransferOffer(
            transfer_id=secrets.token_bytes(TRANSFER_ID_BYTES),
            size_bytes=outgoing.size_bytes,
            fingerprint=outgoing.fingerprint,
        )
        self._open[offer.transfer_id] = _Export(
            outgoing, Transfer("", "out", outgoing.size_bytes), probe=True
        )
        try:
            offer.ticket.CopyFrom(await self._make_ticket(offer.transfer_id, path, outgoing.whole))
        except BaseException:
            self.withdraw(offer)
            raise
        return offer

    def transfer(self, offer: pb.TransferOffer) -> Transfer | None:
        """The record of an offer that is open."""
        export = self._open.get(offer.transfer_id)
        return export.transfer if export is not None else None

    def withdraw(self, offer: pb.TransferOffer) -> None:
        """Take back what was not, or need not be, pulled."""
        self._end(offer.transfer_id, CANCELLED)

    def refused(self, transfer_id: bytes) -> None:
        """The content changed before all of it had left; called on the Flight server's threads."""
        self._loop.call_soon_threadsafe(self._end, transfer_id, FAILED)

    def served(self, transfer_id: bytes, size_bytes: int, wire_bytes: int) -> None:
        """The Flight server has handed out `size_bytes` as `wire_bytes`; called on its threads."""
        self._loop.call_soon_threadsafe(self._count, transfer_id, size_bytes, wire_bytes)

    def close(self) -> None:
        for transfer_id in list(self._open):
            self._end(transfer_id, CANCELLED)

    def _note_delivered(self, outgoing: Outgoing) -> None:
        self._delivered[outgoing.fingerprint] = None
        while len(self._delivered) > _REMEMBERED:
            self._delivered.popitem(last=False)

    async def _describe(self, query: pb.ManifestQuery) -> pb.Manifest:
        export = self._open.get(query.transfer_id)
        if export is None:
            raise TicketRefused("no such transfer: it has ended or was never offered")
        outgoing = export.outgoing
        if export.manifest is None:  # made once, however often it is asked for
            export.manifest = asyncio.ensure_future(asyncio.to_thread(self._manifest, outgoing))
        return pb.Manifest(content=await asyncio.shield(export.manifest), key=self._key)

    def _manifest(self, outgoing: Outgoing) -> bytes:
        body = list(outgoing.pieces())
        cuts = cut(body, segments(parts_to_wire(outgoing.parts), outgoing.size_bytes))
        manifest = Manifest(cuts, name_chunks(body, cuts, self._key)).to_bytes()
        for leaf in range(outgoing.leaves):  # nothing is told of what has changed since
            outgoing.verify_leaf(leaf)
        return manifest

    def _check_room(self) -> None:
        if len(self._open) >= MAX_OPEN:
            raise LimitExceeded(f"{MAX_OPEN} transfers are open; finish some before you ask for more")

    async def _ticket(self, query: pb.TicketQuery) -> pb.Ticket:
        if len(query.missing) > 2 * _MAX_RANGES or len(query.missing) % 2:
            raise TicketRefused(f"what is missing of the value is told in over {_MAX_RANGES} ranges")
        if any(first >= second for first, second in pairwise(query.missing)):
            raise TicketRefused("what is missing of the value is told out of order")
        ranges = list(zip(query.missing[::2], query.missing[1::2], strict=True))
        return await self._make_ticket(
            query.transfer_id, query.path, ranges, query.reference, plain=query.plain
        )

    async def _make_ticket(
        self,
        transfer_id: bytes,
        path_name: str,
        ranges: Sequence[tuple[int, int]],
        fingerprint: bytes = b"",
        *,
        plain: bool = False,
    ) -> pb.Ticket:
        export = self._open.get(transfer_id)
        if export is None:
            raise TicketRefused("no such transfer: it has ended or was never offered")
        path = self._ladder.named(path_name)
        order = Order(ranges, lambda now_s: PlainCourse(_PLAIN_CHUNK_BYTES))
        if not plain and not export.probe:
            reference = self._versions.reference(export.transfer.name, export.outgoing, fingerprint)
            order = Order(ranges, partial(self._begin, export, path_name), reference)
        ticket = await path.offer(transfer_id, export.outgoing, order)
        if transfer_id not in self._open:  # ended while the ticket was made
            path.release(transfer_id)
            raise TicketRefused("the transfer has ended")
        export.transfer.path = path.name
        return ticket

    def _begin(self, export: _Export, path_name: str, now_s: float) -> Course:
        course = self._tuner.begin(
            export.transfer.name,
            path_name,
            export.outgoing.size_bytes,
            now_s,
            self._traffic.round_trip.typical_s or 0.0,
        )
        export.course = course
        return course

    def _count(self, transfer_id: bytes, size_bytes: int, wire_bytes: int) -> None:
        export = self._open.get(transfer_id)
        if export is not None and not export.probe:
            self._traffic.count(export.transfer, size_bytes, wire_bytes)

    def _ended(self, end: pb.TransferEnd) -> None:
        export = self._open.get(end.transfer_id)
        if export is not None and export.course is not None:
            for time_ in end.decoding:
                export.course.decoded(time_.codec, time_.raw_bytes, time_.elapsed_us / 1e6)
        self._end(end.transfer_id, COMPLETE if end.complete else CANCELLED)

    def _end(self, transfer_id: bytes, state: str) -> None:
        export = self._open.pop(transfer_id, None)
        if export is None:
            return
        transfer = export.transfer
        if transfer.path:
            self._ladder.named(transfer.path).release(transfer_id)
        if state == COMPLETE and not export.probe:
            self._note_delivered(export.outgoing)
            self._versions.keep(transfer.name, export.outgoing)
        if state == COMPLETE and transfer.state == RUNNING:
            # what the peer mapped, or took before the last count came in
            self._traffic.count(transfer, transfer.size_bytes - transfer.done_bytes, 0)
        transfer.end(state)
