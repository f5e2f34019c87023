"""The losses that operations have to raise here: each loss once, and the same at all members that are left.

A loss interrupts the running operation. If none runs, the next operation raises it (with
`on_loss="raise"`). Two cases need more care. First, some members may have finished an operation in which
others were interrupted. Then all of them raise the loss, because they would call different operations
otherwise. Second, a member that leaves is not a loss, but others may relay its departure before its own
announcement is here. Then no operation begins until the announcement has arrived.
"""

from __future__ import annotations

from collections.abc import Iterable

from duetlink.errors import PeerLost


class Losses:
    """The losses that one member has still to raise. Pure; used on the loop thread."""

    def __init__(self) -> None:
        self._unraised: PeerLost | None = None  # a loss that no operation has raised here yet
        # the epoch and the error of the first departure or loss since an operation last raised one
        self._missed: tuple[int, PeerLost] | None = None
        self._uneven = 0  # the last epoch before which some had finished an operation and others had not
        self._doubted: dict[int, PeerLost] = {}  # by seat: members whose departure only others have reported

    @property
    def is_in_doubt(self) -> bool:
        """True while a departure is reported by others alone: it may be a loss, so no operation begins."""
        return bool(self._doubted)

    @property
    def are_known(self) -> bool:
        """True if there is an error that an operation may have to raise."""
        return self._unraised is not None or self._missed is not None

    # -- what happens ----------------------------------------------------------------------------------------

    def lost(self, epoch: int, error: PeerLost) -> None:
        """Note that a member of that epoch is lost; the next operation raises `error`."""
        self._miss(epoch, error)
        self._unraised = error

    def left(self, epoch: int, error: PeerLost) -> None:
        """Note that a member of that epoch leaves; `error` is raised only if it interrupts some members."""
        self._miss(epoch, error)

    def doubt(self, seat: int, error: PeerLost) -> None:
        """Note that other members report this seat to leave; `error` is raised if it turns out to be lost."""
        self._doubted[seat] = error

    def believe(self, seats: Iterable[int]) -> None:
        """Note that these seats have announced themselves that they leave."""
        for seat in seats:
            self._doubted.pop(seat, None)

    def confirm(self, seat: int) -> bool:
        """Regard a doubted seat as lost, since its own announcement will not come any more.

        Returns False if the seat was not in doubt.
        """
        loss = self._doubted.pop(seat, None)
        if loss is not None:
            self._unraised = loss
        return loss is not None

    def began(self, epoch: int, *, even: bool) -> None:
        """Note that an epoch begins; `even` if all had finished the same operations of the last epoch."""
        if not even:
            self._uneven = epoch

    def raised(self) -> None:
        """Note that an operation has raised an error here, which covers every loss so far."""
        self._unraised = self._missed = None

    # -- what an operation raises ----------------------------------------------------------------------------

    def may_try_again(self, epoch: int) -> bool:
        """Return True if all members were interrupted in the same operation of that epoch."""
        if self._uneven > epoch:
            self._missed = None
            return False
        return True

    def take_unraised(self, on_loss: str) -> PeerLost | None:
        """Return, once, the loss that the next operation raises as soon as it is called.

        None if there is none, or `on_loss` is not "raise".
        """
        unraised, self._unraised = self._unraised, None
        if unraised is None or on_loss != "raise":
            return None
        self._missed = None
        return unraised

    def take_uneven(self) -> PeerLost | None:
        """Return, once, the error that the next operation raises before it begins, or None.

        There is one if other members raise this error because they were interrupted in an operation that
        this member had finished.
        """
        missed, self._missed = self._missed, None
        return missed[1] if missed is not None and self._uneven > missed[0] else None

    def _miss(self, epoch: int, error: PeerLost) -> None:
        if self._missed is None:
            self._missed = epoch, error
