"""The sending side: bodies that this side has offered to the peer, and the tickets for them."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from itertools import pairwise

from duetlink.base.runtime.holdings import Holdings
from duetlink.base.wire import failures
from duetlink.base.wire import schema_pb2 as pb
from duetlink.data.tuning import CodecController, Tuner
from duetlink.errors import (
    AssetChanged,
    DuetError,
    LimitExceeded,
    PathUnavailable,
    TicketRefused,
    TransferCancelled,
)
from duetlink.net.flight.body import Outgoing
from duetlink.net.flight.sending import Order, PlainController
from duetlink.net.link.export import Export, Sources
from duetlink.net.link.holding import Versions, parts_to_wire
from duetlink.net.link.traffic import Traffic
from duetlink.net.link.transfer import CANCELLED, COMPLETE, FAILED, Transfer
from duetlink.net.paths.base import Path
from duetlink.net.paths.local import INLINE_BYTES, LocalPath
from duetlink.net.paths.path_selector import PathSelector
from duetlink.net.peer.rpc import Rpc
from duetlink.settings import Settings

TRANSFER_ID_BYTES = 16
KEY_BYTES = 32
_REMEMBERED = 1024  # the latest fingerprints, and the latest retired transfers
_MAX_RANGES = 1 << 17
_PLAIN_CHUNK_BYTES = 64 * 1024  # small, so that a probe of a slow path receives several
_PLACING_S = 0.25  # between two messages that say how far a long copy is
_TINY_BYTES = 512  # bodies of at most this size are sent inline even if the peer may still have them
GOING_OUT = "it is being sent"
MAX_OPEN = 256  # offers that the peer has not finished


class Exports:
    """The offers of this side on one link. Methods belong to the loop thread."""

    def __init__(
        self,
        rpc: Rpc,
        path_selector: PathSelector,
        traffic: Traffic,
        tuner: Tuner,
        settings: Settings,
        holdings: Holdings,
    ) -> None:
        self._tuner = tuner
        self._holdings = holdings
        self._path_selector = path_selector
        self._traffic = traffic
        self._inline_limit_bytes = settings.inline_limit_bytes
        self._open: dict[bytes, Export] = {}
        self.paused = False  # this side has paused everything that it sends
        self._loop = asyncio.get_running_loop()
        # fingerprints of bodies that the peer has received and may have kept
        self._delivered: OrderedDict[bytes, None] = OrderedDict()
        self._versions = Versions(settings.held_bytes, holdings)
        self._retired: OrderedDict[bytes, str] = OrderedDict()  # reasons, by transfer number
        self._key = secrets.token_bytes(KEY_BYTES)
        self._rpc = rpc
        rpc.handle(pb.TicketQuery, self._ticket)
        rpc.handle(pb.ManifestQuery, self._describe)

    async def offer(
        self,
        name: str,
        outgoing: Outgoing,
        path: str = "",
        on_start: Callable[[Transfer], None] = lambda transfer: None,
        *,
        sources: Sources = frozenset(),
    ) -> pb.TransferOffer:
        """Return an offer of `outgoing` that the peer can pull: inline if small, else with a ticket for
        `path`.

        While this side is paused, the offer has neither. `on_start` is called with the transfer's record,
        unless the body is inline. `sources` are the shared assets whose data the body contains: see `retire`.

        Raises:
            TransferCancelled: this side cancelled it meanwhile.
            LimitExceeded: the peer has MAX_OPEN offers that it has not finished.
            AssetChanged: the content no longer has its fingerprint, or a source was retired meanwhile.
        """
        offer = _offer_of(outgoing)
        is_known = outgoing.size_bytes > _TINY_BYTES and outgoing.fingerprint in self._delivered
        offer.sent_before = is_known and not (path == LocalPath.name and outgoing.size_bytes <= INLINE_BYTES)
        transfer = self._traffic.begin(name, "out", outgoing.size_bytes, self)
        limit_bytes = self._inline_limit_bytes
        if path == LocalPath.name:  # mapping beats the data channel at smaller sizes than a network path does
            limit_bytes = min(limit_bytes, INLINE_BYTES)
        if not offer.sent_before:
            offer.parts.extend(parts_to_wire(outgoing.parts))
        if outgoing.size_bytes <= limit_bytes and not offer.sent_before and not self.paused:
            try:
                offer.inline = outgoing.read()
            except AssetChanged as error:
                transfer.end(FAILED, str(error))
                raise
            transfer.path = "inline"
            self._traffic.count(transfer, outgoing.size_bytes, outgoing.size_bytes)
            transfer.end(COMPLETE)
            self._note_delivered(outgoing)
            return offer
        try:
            self._check_room()
        except LimitExceeded as error:
            transfer.end(CANCELLED, str(error))
            raise
        export = self._begin_export(offer.transfer_id, Export(outgoing, transfer, sources=sources))
        on_start(transfer)
        self._follow(offer.transfer_id, export)
        # the receiver keeps no bodies that it mapped, so with `local` it needs a ticket even if it had this
        # one
        if path and not transfer.paused and (not offer.sent_before or path == LocalPath.name):
            await self._add_ticket(offer, export, path)
        return offer

    async def _add_ticket(self, offer: pb.TransferOffer, export: Export, path: str) -> None:
        started_s = time.monotonic()
        try:
            if self._path_selector.named(path).takes_long(export.outgoing):
                return  # the receiver asks for one, and is told how far it is
            ticket = await self._make_ticket(offer.transfer_id, path, export.outgoing.whole)
        except PathUnavailable:
            return  # the receiver will ask for another
        except (DuetError, asyncio.CancelledError) as error:
            self.withdraw(offer, error)
            raise
        if not export.transfer.paused:  # it may have been paused meanwhile
            offer.ticket.CopyFrom(ticket)
            offer.elapsed_us = round((time.monotonic() - started_s) * 1e6)

    def _begin_export(self, transfer_id: bytes, export: Export) -> Export:
        self._open[transfer_id] = export
        held = export.outgoing.held
        held.title = held.title or export.transfer.name or "a probe of a path"
        self._holdings.keep(held, GOING_OUT, transfer_id)
        return export

    async def offer_probe(self, outgoing: Outgoing, path: str) -> pb.TransferOffer:
        """Return an offer of random bytes with which the peer measures `path`.

        It is not recorded as a transfer.

        Raises:
            PathUnavailable, LimitExceeded: the path cannot be used, or too many offers are open.
        """
        self._check_room()
        offer = _offer_of(outgoing)
        transfer = Transfer("", "out", outgoing.size_bytes)
        self._begin_export(offer.transfer_id, Export(outgoing, transfer, probe=True))
        try:
            offer.ticket.CopyFrom(await self._make_ticket(offer.transfer_id, path, outgoing.whole))
        except BaseException:
            self.withdraw(offer)
            raise
        return offer

    def transfer(self, offer: pb.TransferOffer) -> Transfer | None:
        """Return the record of an open offer; None if it has ended."""
        export = self._open.get(offer.transfer_id)
        return export.transfer if export is not None else None

    def withdraw(self, offer: pb.TransferOffer, error: BaseException | None = None) -> None:
        """End an offer that was not pulled, or need not be; `error` is the reason, if there was one."""
        if isinstance(error, TransferCancelled):
            self._end(offer.transfer_id, CANCELLED, "the receiver cancelled it")
        elif isinstance(error, DuetError):
            self._end(offer.transfer_id, FAILED, str(error))
        else:
            self._end(offer.transfer_id, CANCELLED, "it was withdrawn")

    def retire(self, name: str, revision: int, why: str) -> None:
        """End the offers that contain data of this revision and of which no byte has left.

        Called when the revision is no longer shared. The peer is sent `why`. A transfer that has begun may
        finish.
        """
        self._traffic.counting.settle()
        failure = failures.to_wire(AssetChanged(why))
        for transfer_id, export in list(self._open.items()):
            if (name, revision) in export.sources and not export.transfer.done_bytes:
                self._retired[transfer_id] = why
                while len(self._retired) > _REMEMBERED:
                    self._retired.popitem(last=False)
                self._rpc.tell_nowait(pb.TransferEnd(transfer_id=transfer_id, failure=failure))
                self._end(transfer_id, FAILED, why)

    def forget(self, name: str) -> None:
        """Forget the version of this object that the peer has, so that later ones are not sent as
        differences.
        """
        self._versions.forget(name)

    # -- pausing and ending ----------------------------------------------------------------------------------

    def pause(self, paused: bool) -> None:
        """Pause or resume everything that this side sends, including offers made later."""
        self.paused = paused
        for transfer_id, export in list(self._open.items()):
            self._follow(transfer_id, export)

    def keep_back(self, offer: pb.TransferOffer) -> None:
        """Update an offer that was made some time ago, just before it is sent: drop its ticket if it is
        paused.
        """
        export = self._open.get(offer.transfer_id)
        if export is None:
            return
        if export.transfer.paused:
            offer.ClearField("ticket")
        export.transfer.mapped |= offer.ticket.path == LocalPath.name

    def peer_paused(self, transfer_id: bytes, paused: bool) -> bool:
        """Handle the peer's pause or resume. Return False for a transfer that is not an open export."""
        export = self._open.get(transfer_id)
        if export is None:
            return False
        if not export.probe and export.transfer.set_paused(there=paused):
            export.follow()
        return True

    def peer_ended(self, end: pb.TransferEnd) -> bool:
        """Handle the peer's end of a transfer. Return False for a transfer that is not an open export."""
        export = self._open.get(end.transfer_id)
        if export is None:
            return False
        if export.controller is not None:
            for time_ in end.decoding:
                export.controller.decoded(time_.codec, time_.raw_bytes, time_.elapsed_us / 1e6)
        error = failures.from_wire(end.failure) if end.HasField("failure") else TransferCancelled()
        if end.complete:
            self._end(end.transfer_id, COMPLETE)
        elif isinstance(error, TransferCancelled):
            self._end(end.transfer_id, CANCELLED, "the receiver cancelled it")
        else:
            self._end(end.transfer_id, FAILED, f"at the receiver: {error}")
        return True

    def pause_transfer(self, transfer: Transfer, paused: bool) -> None:
        transfer_id, export = self._moving(transfer)
        export.paused = paused
        self._follow(transfer_id, export)

    def cancel_transfer(self, transfer: Transfer) -> None:
        transfer_id, _ = self._moving(transfer)
        failure = failures.to_wire(TransferCancelled("the sender cancelled it"))
        self._rpc.tell_nowait(pb.TransferEnd(transfer_id=transfer_id, failure=failure))
        self._end(transfer_id, CANCELLED, "this side cancelled it")

    def _moving(self, transfer: Transfer) -> tuple[bytes, Export]:
        return next(item for item in self._open.items() if item[1].transfer is transfer)

    def _follow(self, transfer_id: bytes, export: Export) -> None:
        """Apply this side's pauses to one export, and notify the peer if that changes it."""
        here = self.paused or export.paused
        if not export.probe and export.transfer.set_paused(here=here):
            export.follow()
            self._rpc.tell_nowait(pb.TransferPause(transfer_id=transfer_id, paused=here))

    # -- callbacks of the Flight server, on its threads ------------------------------------------------------

    def refused(self, transfer_id: bytes) -> None:
        """End a transfer whose content changed before all of it was sent."""
        self._loop.call_soon_threadsafe(self._end, transfer_id, FAILED, "its content has changed")

    def served(self, transfer_id: bytes, size_bytes: int, wire_bytes: int) -> None:
        """Count `size_bytes` of the body, which were sent as `wire_bytes`."""
        export = self._open.get(transfer_id)
        if export is not None and not export.probe:
            self._traffic.counting.add(export.transfer, size_bytes, wire_bytes)

    def close(self, why: str) -> None:
        for transfer_id in list(self._open):
            self._end(transfer_id, FAILED, why)

    # -- tickets and manifests -------------------------------------------------------------------------------

    def _note_delivered(self, outgoing: Outgoing) -> None:
        self._delivered[outgoing.fingerprint] = None
        while len(self._delivered) > _REMEMBERED:
            self._delivered.popitem(last=False)

    async def _describe(self, query: pb.ManifestQuery) -> pb.Manifest:
        await self._export(query.transfer_id).moving.wait()
        content = await self._export(query.transfer_id).manifest(self._key)
        self._export(query.transfer_id)  # it may have ended meanwhile
        return pb.Manifest(content=content, key=self._key)

    def _export(self, transfer_id: bytes) -> Export:
        """Return an open export. Raises AssetChanged if it was retired, TicketRefused if it is unknown."""
        try:
            return self._open[transfer_id]
        except KeyError:
            if transfer_id in self._retired:
                raise AssetChanged(self._retired[transfer_id]) from None
            raise TicketRefused("no such transfer: it has ended or was never offered") from None

    def _check_room(self) -> None:
        if len(self._open) >= MAX_OPEN:
            raise LimitExceeded(f"{MAX_OPEN} transfers are open; finish some of them, then ask again")

    async def _ticket(self, query: pb.TicketQuery) -> pb.Ticket:
        if len(query.missing) > 2 * _MAX_RANGES or len(query.missing) % 2:
            raise TicketRefused(
                f"the missing parts of a value must be at most {_MAX_RANGES} ranges, in pairs"
            )
        if any(first >= second for first, second in pairwise(query.missing)):
            raise TicketRefused("the missing parts of a value must be in ascending order")
        ranges = list(zip(query.missing[::2], query.missing[1::2], strict=True))
        while True:
            export = self._export(query.transfer_id)
            await export.moving.wait()
            ticket = await self._make_ticket(
                query.transfer_id, query.path, ranges, query.reference, plain=query.plain
            )
            if not export.transfer.paused:  # paused meanwhile: a mapped body would be readable at once
                export.transfer.mapped |= query.path == LocalPath.name
                return ticket

    async def _make_ticket(
        self,
        transfer_id: bytes,
        path_name: str,
        ranges: Sequence[tuple[int, int]],
        fingerprint: bytes = b"",
        *,
        plain: bool = False,
    ) -> pb.Ticket:
        export = self._export(transfer_id)
        path = self._path_selector.named(path_name)
        order = Order(ranges, lambda now_s: PlainController(_PLAIN_CHUNK_BYTES), gate=export.gate)
        if not plain and not export.probe:
            reference = self._versions.reference(export.transfer.name, export.outgoing, fingerprint)
            order = Order(ranges, partial(self._begin, export, path_name), reference, export.gate)
        export.paths[path.name] = path
        async with self._told(transfer_id, export, path):
            ticket = await path.offer(transfer_id, export.outgoing, order)
        if transfer_id not in self._open:  # ended while the ticket was made
            path.release(transfer_id)
            if export.transfer.state == CANCELLED:
                raise TransferCancelled(f"the transfer of {export.transfer.name!r} was cancelled")
            self._export(transfer_id)  # raises
        export.transfer.path = path.name
        return ticket

    @contextlib.asynccontextmanager
    async def _told(self, transfer_id: bytes, export: Export, path: Path) -> AsyncIterator[None]:
        """Tell the receiver within the block, if that may take long, how much of the body is prepared."""

        async def tell() -> None:
            while True:
                await asyncio.sleep(_PLACING_S)
                placed_bytes = export.transfer.placed_bytes = path.placed_bytes(export.outgoing)
                self._rpc.tell_nowait(pb.TransferPlacing(transfer_id=transfer_id, placed_bytes=placed_bytes))

        telling = asyncio.ensure_future(tell()) if path.takes_long(export.outgoing) else None
        try:
            yield
        except BaseException:
            export.transfer.placed_bytes = 0
            raise
        finally:
            if telling is not None:
                telling.cancel()

    def _begin(self, export: Export, path_name: str, now_s: float) -> CodecController:
        controller = CodecController(
            self._tuner,
            export.transfer.name,
            path_name,
            export.outgoing.size_bytes,
            now_s,
            self._traffic.round_trip.typical_s or 0.0,
        )
        export.controller = controller
        return controller

    def _end(self, transfer_id: bytes, state: str, why: str = "") -> None:
        export = self._open.pop(transfer_id, None)
        if export is None:
            return
        self._traffic.counting.settle()
        export.end()
        transfer = export.transfer
        for path in export.paths.values():
            path.release(transfer_id)
        if state == COMPLETE and not export.probe:
            self._note_delivered(export.outgoing)
            if transfer.path != LocalPath.name:  # the receiver keeps no bodies that it mapped
                self._versions.keep(transfer.name, export.outgoing)
        export.outgoing.held.let_go(GOING_OUT, transfer_id)
        if state == COMPLETE and transfer.running:
            # what the peer mapped, or took before the last count came in
            self._traffic.count(transfer, transfer.size_bytes - transfer.done_bytes, 0)
        transfer.end(state, why)


def _offer_of(outgoing: Outgoing) -> pb.TransferOffer:
    return pb.TransferOffer(
        transfer_id=secrets.token_bytes(TRANSFER_ID_BYTES),
        size_bytes=outgoing.size_bytes,
        fingerprint=outgoing.fingerprint,
    )
