"""`duet.transfers`: the transfers of both directions, which a person can pause, resume, cancel and retry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from duetlink.base.quantities import rate_text, size_text
from duetlink.base.runtime.loop import LoopThread
from duetlink.base.wire.text import harmless
from duetlink.duet.asking.requests.asking import Question
from duetlink.duet.asking.requests.pending_request import PendingRequest
from duetlink.duet.display import Displayed, Table, visible
from duetlink.duet.life import CLOSED, Life
from duetlink.duet.objects.giving import Gift
from duetlink.errors import AssetNotFound, TransferEnded
from duetlink.net.link.transfer import CANCELLED, FAILED, Transfer, TransferStatus

_ARROWS = {"in": "comes in", "out": "goes out"}


class SharedTransfer:
    """One transfer, as it is now. Either side may pause it; it runs while neither does."""

    def __init__(self, transfer: Transfer, life: Life, thread: LoopThread) -> None:
        self._transfer = transfer
        self._life = life
        self._thread = thread

    @property
    def status(self) -> TransferStatus:
        """A frozen snapshot of all properties."""
        return self._transfer.status()

    @property
    def number(self) -> int:
        """The number of the transfer on this side of this duet: 0, 1, 2, … It never changes and is never used
        again.
        """
        return self._transfer.number

    @property
    def name(self) -> str:
        return harmless(self._transfer.name)

    @property
    def direction(self) -> str:
        """`in` or `out`."""
        return self._transfer.direction

    @property
    def size_bytes(self) -> int:
        return self._transfer.size_bytes

    @property
    def done_bytes(self) -> int:
        return self._transfer.done_bytes

    @property
    def wire_bytes(self) -> int:
        """The bytes that had to move for `done_bytes`."""
        return self._transfer.wire_bytes

    @property
    def path(self) -> str:
        """The path that carried the most recent bytes."""
        return self._transfer.path

    @property
    def state(self) -> str:
        """`running`, also while it is paused, `complete`, `cancelled` or `failed`."""
        return self._transfer.state

    @property
    def why(self) -> str:
        """The reason why it was cancelled or failed."""
        return self._transfer.why

    @property
    def paused_here(self) -> bool:
        """True while this side has paused it, either this transfer alone or everything that it sends."""
        return self._transfer.paused_here

    @property
    def paused_there(self) -> bool:
        """True while the peer has paused it."""
        return self._transfer.paused_there

    @property
    def duration_s(self) -> float:
        """The seconds since it began, including pauses."""
        return self.status.duration_s

    @property
    def bytes_per_s(self) -> float:
        """The average rate since it began."""
        return self.status.bytes_per_s

    def pause(self) -> None:
        """Pause it on both sides until `resume`. Does nothing if this side has paused it already.

        Raises:
            TransferEnded: it has ended.
            LinkClosed: the peer is gone.
        """
        self._thread.call(lambda: self._transfer.pause(True))

    def resume(self) -> None:
        """End this side's pause. It stays paused while the peer or `duet.pause()` pauses it too. Raises as
        `pause`.
        """
        self._thread.call(lambda: self._transfer.pause(False))

    def cancel(self) -> None:
        """End it on both sides. Nothing partial is kept; a call that waits for it raises TransferCancelled.

        Raises as `pause`.
        """
        self._thread.call(self._transfer.cancel)

    @property
    def can_retry(self) -> bool:
        """True if `retry` can start it again: a requested object, or a gift of this side, that failed or was
        cancelled and has not been retried.
        """
        return self._transfer.state in (CANCELLED, FAILED) and self._transfer.origin is not None

    def retry(self) -> PendingRequest | None:
        """Start it again in the background, as a transfer with a new number.

        A requested object is requested again, in its present revision and for the same reason; the request is
        returned. A gift is given again.

        Raises:
            TransferEnded: it cannot be retried, see `can_retry`.
            AssetNotFound: the peer no longer shares it.
            LinkClosed: the peer is gone.
        """
        origin = self._transfer.origin
        if not self.can_retry:
            raise TransferEnded(
                f"transfer {self.number} of {self.name!r} cannot be retried: only one that was requested or "
                f"given here, has failed or was cancelled, and was not retried before (it is {self.state})"
            )
        if self._life.state == CLOSED:
            raise self._life.closed_error()
        if isinstance(origin, Question):
            info = self._life.catalogue.peer.get(origin.asset.name)
            if info is None:
                raise AssetNotFound(f"the peer no longer shares {origin.asset.name!r}")
            question = partial(Question, info, origin.reason)
            pending = PendingRequest(question, self._life.asking, self._thread)
            self._transfer.origin = None
            return pending
        assert isinstance(origin, Gift)
        self._thread.submit(self._life.giving.give(Gift(origin.info, origin.content)))
        self._transfer.origin = None
        return None

    def row(self) -> tuple[str, ...]:
        """Return its row in a table."""
        now = self.status
        return (
            str(now.number),
            now.name,
            _ARROWS[now.direction],
            f"{size_text(now.done_bytes)} of {size_text(now.size_bytes)}",
            rate_text(now.bytes_per_s),
            now.path,
            now.state + _paused_words(now),
            now.why,
        )

    def __repr__(self) -> str:
        now = self.status
        why = f", {visible(now.why)}" if now.why else ""
        return (
            f"<Transfer {now.number} ({now.state}{_paused_words(now)}{why}): {visible(now.name)!r} "
            f"{_ARROWS[now.direction]}, {size_text(now.done_bytes)} of {size_text(now.size_bytes)}>"
        )

    def _repr_html_(self) -> str:
        return TransferTable([self])._repr_html_()


class TransferTable(Displayed):
    """The latest transfers, oldest first, and all that run; its index is the number in the table."""

    def __init__(self, transfers: Sequence[SharedTransfer]) -> None:
        self._transfers = {transfer.number: transfer for transfer in transfers}

    def __len__(self) -> int:
        return len(self._transfers)

    def __iter__(self) -> Iterator[SharedTransfer]:
        return iter(self._transfers.values())

    def __getitem__(self, number: int) -> SharedTransfer:
        """Return the transfer of that number. Raises IndexError if the record has none, or no longer."""
        try:
            return self._transfers[number]
        except (KeyError, TypeError):
            kept = f"{min(self._transfers)} to {max(self._transfers)}" if self._transfers else "none yet"
            raise IndexError(f"there is no transfer {number!r} in the record; it has {kept}") from None

    def table(self) -> Table:
        headers = ("#", "object", "direction", "size", "rate", "path", "state", "why")
        return Table("Transfers", headers, [transfer.row() for transfer in self], "nothing has moved")


def _paused_words(status: TransferStatus) -> str:
    who = [word for word, paused in (("here", status.paused_here), ("there", status.paused_there)) if paused]
    return f", paused {' and '.join(who)}" if who else ""
