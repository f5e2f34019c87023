"""Offers for approved requests: made, recorded, and sent or withdrawn."""

from __future__ import annotations

import dataclasses

from duetlink.base.audit import entry
from duetlink.base.wire import schema_pb2 as pb
from duetlink.duet.answering.actions import Reply
from duetlink.duet.answering.handling import Asker, Handling
from duetlink.duet.answering.states import APPROVED, DENIED, FAILED, PENDING
from duetlink.duet.objects.catalogue import Catalogue
from duetlink.duet.objects.recorder import Recorder, leaving
from duetlink.errors import AssetChanged, AssetNotFound, AuditUnavailable
from duetlink.net.link.link import Link
from duetlink.net.link.transfer import Transfer

_MAX_BYTES_WITH_TICKET = 1024 * 1024 * 1024
_STATES = {
    PENDING: pb.Answer.PENDING,
    APPROVED: pb.Answer.APPROVED,
    DENIED: pb.Answer.DENIED,
    FAILED: pb.Answer.FAILED,
}


class Releases:
    """Makes and sends the offers. Used on the loop thread only."""

    def __init__(self, catalogue: Catalogue, recorder: Recorder) -> None:
        self._catalogue = catalogue
        self._recorder = recorder
        self._link: Link | None = None

    def attach(self, link: Link) -> None:
        self._link = link

    async def make_offer(self, handling: Handling, asker: Asker) -> None:
        """Offer the request's content to one asker, without sending the offer. Raises AssetNotFound,
        AssetChanged, and as `Exports.offer`.
        """
        assert self._link is not None
        assert handling.content is not None
        info = handling.request.asset
        self._catalogue.check_offered(info)
        # making the ticket of a large body may take longer than a call's timeout: the peer asks for it
        # separately
        path = asker.path if info.size_bytes <= _MAX_BYTES_WITH_TICKET else ""
        asker.outgoing = await handling.content.outgoing()
        begun: list[Transfer] = []
        asker.offer = await self._link.exports.offer(
            info.name, asker.outgoing, path, begun.append, sources=frozenset(info.sources)
        )
        asker.transfer = begun[0] if begun else None

    async def record(self, handling: Handling, asker: Asker, with_question: bool) -> None:
        """Write to the audit log that the offer goes out; return when the line is on the disk.

        Raises:
            AuditUnavailable: the offer must not go out.
            AssetNotFound, AssetChanged: the asset was unshared or changed meanwhile.
        """
        assert asker.offer is not None
        assert asker.outgoing is not None
        request, by, transfer = handling.request, handling.case.by, asker.transfer
        outgoing, asker.outgoing, asker.transfer = asker.outgoing, None, None
        release = dataclasses.replace(
            leaving(entry.RELEASE, request.asset, outgoing, asker.offer, transfer, request.number),
            reason=asker.reason,
            by=by,
        )
        asker.release = release if transfer is None else None
        before = (request.asked_entry(asker.reason),) if with_question else ()
        await self._recorder.let_out(*before, request.answered_entry(by), release, transfer=transfer)
        self._catalogue.check_offered(request.asset)

    def answer(self, handling: Handling, reply: Reply) -> pb.Answer:
        """Build the message for the peer, with the offer. From here on the offer counts as sent. If the asset
        is no longer shared by now, the answer is a denial: other askers may have been answered first.
        """
        state, name = _STATES[reply.state], handling.request.asset.name
        answer = pb.Answer(request_id=reply.asker, state=state, reason=reply.reason, name=name)
        asker = handling.askers.get(reply.asker)
        if reply.state == APPROVED and asker is not None and asker.offer is not None:
            assert self._link is not None
            try:
                self._catalogue.check_offered(handling.request.asset)
            except (AssetNotFound, AssetChanged) as error:
                self.withdraw(asker, error)
                return pb.Answer(request_id=reply.asker, state=pb.Answer.DENIED, reason=str(error), name=name)
            self._link.exports.keep_back(asker.offer)
            answer.offer.CopyFrom(asker.offer)
            asker.offer, asker.release = pb.TransferOffer(transfer_id=asker.offer.transfer_id), None
        return answer

    async def tell(self, handling: Handling, reply: Reply) -> None:
        """Send the answer; return when the peer has it. Raises LinkClosed, CallTimeout."""
        assert self._link is not None
        await self._link.rpc.call(self.answer(handling, reply), pb.Done)

    def notify(self, handling: Handling, reply: Reply) -> None:
        """Send the answer without waiting, if there is a link."""
        if self._link is not None:
            self._link.rpc.tell_nowait(self.answer(handling, reply))

    def withdraw(self, asker: Asker, error: BaseException | None) -> None:
        """Withdraw an offer that was not sent; `error` is the reason, if there is one."""
        if asker.release is not None and not isinstance(error, AuditUnavailable):
            self._recorder.release_undone(asker.release)
        if asker.offer is not None and self._link is not None:
            self._link.exports.withdraw(asker.offer, error)
        asker.offer = asker.outgoing = asker.release = None

    def is_moving(self, asker: Asker) -> bool:
        """Return True while the offer is open, so that the peer may still fetch it."""
        return (
            asker.offer is not None
            and self._link is not None
            and self._link.exports.transfer(asker.offer) is not None
        )

    def end(self, asker: Asker) -> None:
        """Withdraw an offer that the peer knows and no longer wants."""
        if asker.offer is not None and self._link is not None:
            self._link.exports.withdraw(asker.offer)
