"""The running pulls of one link by transfer number, and the sender's messages about them."""

from __future__ import annotations

from collections import OrderedDict

from duetlink.base.reraise import reraise
from duetlink.base.wire import failures
from duetlink.base.wire import schema_pb2 as pb
from duetlink.errors import AssetChanged, LinkClosed, RemoteProtocolError, TransferCancelled
from duetlink.net.link.pull import Pull
from duetlink.net.link.transfer import CANCELLED, FAILED, Transfer
from duetlink.net.peer.rpc import Rpc

_ID_BYTES = 16

# The most messages that are kept for pulls that have not begun: a message may arrive before the coroutine
# that begins the pull has run.
_EARLY = 256


class Pulls:
    """Methods belong to the loop thread."""

    def __init__(self, rpc: Rpc) -> None:
        self._rpc = rpc
        self._open: dict[bytes, Pull] = {}
        # the last early message of each transfer: a bool: paused or not; None: cancelled; an error: why it
        # ended
        self._early: OrderedDict[bytes, bool | AssetChanged | None] = OrderedDict()

    def add(self, transfer_id: bytes, pull: Pull) -> None:
        """Register a pull and apply early messages. Raises RemoteProtocolError if its number is in use."""
        if transfer_id in self._open:
            raise RemoteProtocolError("the peer offers two transfers under one number")
        self._open[transfer_id] = pull
        if transfer_id in self._early:
            word = self._early.pop(transfer_id)
            if not isinstance(word, bool):
                self._end(pull, word)
            elif pull.transfer.set_paused(there=word):
                pull.follow()

    def remove(self, transfer_id: bytes, pull: Pull) -> None:
        if self._open.get(transfer_id) is pull:
            del self._open[transfer_id]

    def peer_paused(self, pause: pb.TransferPause) -> None:
        """Handle the sender's pause or resume."""
        pull = self._open.get(pause.transfer_id)
        if pull is None:
            self._keep(pause.transfer_id, pause.paused)
        elif pull.transfer.set_paused(there=pause.paused):
            pull.follow()

    def peer_places(self, placing: pb.TransferPlacing) -> None:
        """Record how much of a body the sender has copied to shared memory. It is shown, and nothing else."""
        pull = self._open.get(placing.transfer_id)
        if pull is not None:
            pull.transfer.placed_bytes = min(placing.placed_bytes, pull.transfer.size_bytes)

    def peer_ended(self, end: pb.TransferEnd) -> None:
        """Handle the sender's end of a transfer: it was cancelled, or its asset was retired."""
        pull = self._open.get(end.transfer_id)
        error = failures.from_wire(end.failure)
        why = error if isinstance(error, AssetChanged) else None
        if pull is None:
            self._keep(end.transfer_id, why)
        else:
            self._end(pull, why)

    def close(self, error: LinkClosed) -> None:
        """Make all pulls raise `error`, because the link has closed."""
        for pull in self._open.values():
            pull.end(reraise(error))

    def _keep(self, transfer_id: bytes, word: bool | AssetChanged | None) -> None:
        if len(transfer_id) != _ID_BYTES:
            raise RemoteProtocolError(f"a transfer's number has {_ID_BYTES} bytes")
        if isinstance(self._early.get(transfer_id, False), bool):  # an end is final
            self._early[transfer_id] = word
        while len(self._early) > _EARLY:
            self._early.popitem(last=False)

    def pause_transfer(self, transfer: Transfer, paused: bool) -> None:
        for transfer_id, pull in self._open.items():
            if pull.transfer is transfer and transfer.set_paused(here=paused):
                pull.follow()
                self._rpc.tell_nowait(pb.TransferPause(transfer_id=transfer_id, paused=paused))

    def cancel_transfer(self, transfer: Transfer) -> None:
        for pull in self._open.values():
            if pull.transfer is transfer:
                self._cancel(pull, "this side")

    def _end(self, pull: Pull, why: AssetChanged | None) -> None:
        """End a pull because the sender retired (`why`) or cancelled the transfer."""
        if why is None:
            self._cancel(pull, "the sender")
        else:
            pull.end(why)
            pull.transfer.end(FAILED, str(why))

    def _cancel(self, pull: Pull, who: str) -> None:
        error = TransferCancelled(f"{pull.transfer.name!r}: {who} cancelled it")
        pull.end(error)
        pull.transfer.end(CANCELLED, str(error))  # record it now: the fetch may take a moment to end
