"""Which loss of a member an operation raises here: each once, and the same at all who are left.

A loss interrupts what runs. Where nothing runs, the next operation raises it (with `on_loss="raise"`). Two
cases need more. Some members may have finished what others were interrupted in; then all raise it, because
they would call different operations otherwise. And that a member leaves, which is no loss, may be known from
others first: its own word is waited for before anything begins.
"""

from __future__ import annotations

from collections.abc import Iterable

from duetlink.errors import PeerLost


class Losses:
    """Those of one member's group. Pure; belongs to the loop thread."""

    def __init__(self) -> None:
        self._untold: PeerLost | None = None  # a loss that no operation has raised here
        self._missed: tuple[int, PeerLost] | None = None  # who went, and in which epoch, since one last began
        self._uneven = 0  # the last epoch that began when some had finished what others had not
        self._doubted: dict[int, PeerLost] = {}  # who leaves by the word of others alone, by seat

    @property
    def is_in_doubt(self) -> bool:
        """Whether somebody may be lost who is said to leave: nothing begins before that is known."""
        return bool(self._doubted)

    @property
    def are_known(self) -> bool:
        """Whether there is anything that an operation may have to raise."""
        return self._untold is not None or self._missed is not None

    # -- what happens ----------------------------------------------------------------------------------------

    def lost(self, epoch: int, error: PeerLost) -> None:
        """A member of that epoch is lost."""
        self._miss(epoch, error)
        self._untold = error

    def left(self, epoch: int, error: PeerLost) -> None:
        """A member of that epoch leaves."""
        self._miss(epoch, error)

    def doubt(self, seat: int, error: PeerLost) -> None:
        """That this seat leaves is known from others; `error` is for the case that it is lost."""
        self._doubted[seat] = error

    def believe(self, seats: Iterable[int]) -> None:
        """These have said themselves that they leave."""
        for seat in seats:
            self._doubted.pop(seat, None)

    def confirm(self, seat: int) -> bool:
        """This seat has not said that it leaves, and will not. Whether it was doubted."""
        loss = self._doubted.pop(seat, None)
        if loss is not None:
            self._untold = loss
        return loss is not None

    def began(self, epoch: int, *, even: bool) -> None:
        """An epoch begins; `even` if all had finished the same operations of the last one."""
        if not even:
            self._uneven = epoch

    def told(self) -> None:
        """An operation has raised what there was to be raised."""
        self._untold = self._missed = None

    # -- what follows ----------------------------------------------------------------------------------------

    def may_try_again(self, epoch: int) -> bool:
        """Whether all who were interrupted in that epoch are where this member is."""
        if self._uneven > epoch:
            self._missed = None
            return False
        return True

    def untold(self, on_loss: str) -> PeerLost | None:
        """What the next operation is to raise as soon as it is called."""
        untold, self._untold = self._untold, None
        if untold is None or on_loss != "raise":
            return None
        self._missed = None
        return untold

    def uneven(self) -> PeerLost | None:
        """What the next operation is to raise in place of beginning: others do, instead of trying again."""
        missed, self._missed = self._missed, None
        return missed[1] if missed is not None and self._uneven > missed[0] else None

    def _miss(self, epoch: int, error: PeerLost) -> None:
        if self._missed is None:
            self._missed = epoch, error
