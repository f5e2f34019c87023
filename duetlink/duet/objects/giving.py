"""The loop thread's side of `send`: gives objects to the peer, and receives what the peer gives."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial

from duetlink.base.audit.entry import GIFT
from duetlink.base.runtime.scope import Scope
from duetlink.base.wire import schema_pb2 as pb
from duetlink.data import values
from duetlink.duet.objects.asset import AssetInfo, Content
from duetlink.duet.objects.catalogue import Catalogue, Offer, Received
from duetlink.duet.objects.decoding import Decoding
from duetlink.duet.objects.recorder import Recorder, leaving
from duetlink.errors import (
    DuetError,
    LimitExceeded,
    LinkClosed,
    MissingLibrary,
    TransferCancelled,
    ValueRefused,
)
from duetlink.net.link.link import Link
from duetlink.net.link.transfer import CANCELLED, Transfer

# The peer replies when it has the whole object. This limit does not detect a stall; progress shows that.
_DELIVERY_TIMEOUT_S = 7 * 24 * 3600.0


@dataclass(slots=True)
class Gift:
    """One object that is given to the peer."""

    info: AssetInfo
    content: Content
    transfer: Transfer | None = None


class Giving:
    """Deliveries in both directions."""

    def __init__(self, catalogue: Catalogue, recorder: Recorder, decoding: Decoding) -> None:
        self._catalogue = catalogue
        self._decoding = decoding
        self._recorder = recorder
        self._link: Link | None = None
        self._arriving_bytes = 0
        self._taking = asyncio.Lock()

    def attach(self, link: Link) -> None:
        self._link = link
        link.rpc.handle(pb.Delivery, self._take)

    def prepare(self, offer: Offer) -> Gift:
        """Return a gift with the next revision of its name."""
        return Gift(self._catalogue.describe(offer), offer.content)

    async def give(self, gift: Gift) -> None:
        """Send the object; return when the peer has it. A cancel notifies the peer, which keeps nothing.

        Raises:
            TransferCancelled: by either side.
            ValueRefused: the peer does not accept that much.
            AuditUnavailable: it could not be recorded that it leaves.
            LinkClosed, AssetChanged, TransferFailed.
        """
        link = self._link
        if link is None:
            raise LinkClosed("no peer is connected yet; see duet.state, or duet.wait_connected()")
        best = link.path_selector.best
        offer: pb.TransferOffer | None = None
        try:
            async with Scope() as scope:
                outgoing = await gift.content.outgoing()
                offer = await link.exports.offer(
                    gift.info.name, outgoing, best.name if best else "", partial(_follow, gift, scope)
                )
                begun = leaving(GIFT, gift.info, outgoing, offer, gift.transfer)
                await self._recorder.let_out(begun, transfer=gift.transfer)
                link.exports.keep_back(offer)
                delivery = pb.Delivery(asset=gift.info.to_wire(), offer=offer)
                await link.rpc.call(delivery, pb.Done, timeout_s=_DELIVERY_TIMEOUT_S)
        except (DuetError, asyncio.CancelledError) as error:
            if offer is not None:
                link.exports.withdraw(offer, error)
            if isinstance(error, TransferCancelled) and gift.transfer is not None:
                # with this side's text, whichever side cancelled
                raise TransferCancelled(f"{gift.info.name!r}: {gift.transfer.why}") from None
            raise

    async def _take(self, delivery: pb.Delivery) -> pb.Done:
        assert self._link is not None
        info = AssetInfo.from_wire(delivery.asset)
        size_bytes = delivery.offer.size_bytes
        self._catalogue.room_for(info.name, self._arriving_bytes + size_bytes)
        self._arriving_bytes += size_bytes
        try:
            body = await self._link.imports.pull(info.name, delivery.offer, size_bytes)
            async with self._taking:  # one at a time: each may use all the memory that is left
                room_bytes = self._catalogue.room_for(info.name, self._arriving_bytes)
                room = values.DecodeBudget(room_bytes)
                try:
                    value = await self._decoding.decode(body, room)
                except LimitExceeded as error:
                    raise ValueRefused(
                        f"the peer does not take {info.name!r}: {error}. It can raise max_received_bytes in"
                        " its settings, or you share() the object instead"
                    ) from None
                except MissingLibrary:  # its text may name files of this side
                    raise ValueRefused(
                        f"the peer does not take {info.name!r}: the library that reads a {info.kind} is not"
                        " installed there"
                    ) from None
                decoded_bytes = room_bytes - room.left_bytes
                self._catalogue.receive(Received(info, value, size_bytes + decoded_bytes))
        finally:
            self._arriving_bytes -= size_bytes
        return pb.Done()


def _follow(gift: Gift, scope: Scope, transfer: Transfer) -> None:
    """Connect the gift with its transfer. If the transfer is cancelled, `scope` ends, whatever the peer
    replies.
    """
    gift.transfer = transfer
    transfer.origin = gift

    def leave() -> None:
        if transfer.state == CANCELLED:
            scope.leave(TransferCancelled(transfer.why))

    transfer.when_ended(leave)
