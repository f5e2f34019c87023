"""A progress bar for a transfer that takes long."""

from __future__ import annotations

from typing import Any, Self

from duetlink.base.drawing import screen
from duetlink.base.drawing.bars import bar
from duetlink.net.link.transfer import Transfer, TransferStatus

# without rate and time left, since the end of the pause is not known
_PAUSED = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{postfix}]"


class Progress:
    """Draws one transfer with tqdm. Used on the thread that waits for it, so that the output belongs to its
    cell.
    """

    def __init__(self, name: str, peer: str) -> None:
        """`name` is the object's name, `peer` the peer's."""
        self._name = name
        self._peer = peer
        self._bar: Any = None
        self._paused_s = 0.0  # pauses that were subtracted from the bar's clock so far

    def show(self, transfer: Transfer | None) -> None:
        """Draw `transfer` as it is now, if it takes long enough for a bar."""
        if transfer is None:
            return
        status = transfer.status()
        if self._bar is None:
            if status.duration_s < screen.delay_s():
                return
            self._bar = bar(total=transfer.size_bytes, unit="B", unit_scale=True, desc=self._name)
            self._paused_s = status.paused_s
        drawn = self._bar
        if drawn.disable:  # TQDM_DISABLE
            return
        who = self._paused_by(status)
        drawn.bar_format = _PAUSED if who else None
        is_placed = transfer.placed_bytes > transfer.done_bytes
        words = "into shared memory" if is_placed else transfer.path
        drawn.set_postfix_str(f"paused by {who}" if who else words, refresh=bool(who))
        if who:
            return
        longer_s, self._paused_s = status.paused_s - self._paused_s, status.paused_s
        drawn.start_t += longer_s
        drawn.last_print_t += longer_s
        drawn.update(max(transfer.done_bytes, transfer.placed_bytes) - drawn.n)
        if transfer.done_bytes == transfer.size_bytes:
            self.close()

    def _paused_by(self, status: TransferStatus) -> str:
        """Return who has paused it; empty if it is not paused."""
        who = (["you"] if status.paused_here else []) + ([self._peer] if status.paused_there else [])
        return " and ".join(who)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
