"""Local steps between rounds of averaging: three lines in each of several notebooks, and no server."""

from __future__ import annotations

from typing import Self

from torch import Tensor, nn

from duetlink.errors import RemoteProtocolError, SettingError
from duetlink.groups.api.group import Group
from duetlink.groups.api.rounds import Round
from duetlink.learning.averaging.averaged import Averaged
from duetlink.learning.averaging.flat import FlatModel
from duetlink.learning.averaging.outer import OuterStep

_WEIGHTS = (1e-15, 1e15)  # times an update, float32 has them all


class LocalSteps:
    """Lets each member train by itself, and averages what they have learnt every so many steps.

        steps = LocalSteps(model, group, every=100, weight=len(rows))
        for batch in ...:
            ...  # one step of any optimizer
            steps.after_step()
        steps.close()

    What goes into a round is where the model went since the last one (its *update*), weighted; the mean of
    the updates moves the model that all share. A member that pauses does not stop the others: a round ends
    without it, `grace_s` after a quorum has come. When it steps again it takes in what it has missed, keeps
    what it has learnt since, and gives that to the next round. A member that leaves is missed by nobody, and
    one more comes in at the next round, with the state of the others (where the group was made without a
    size). No rows leave; each round is in the audit log.

    While it is open, the group's operations are its own.
    """

    def __init__(
        self,
        model: nn.Module,
        group: Group,
        *,
        every: int = 100,
        weight: float = 1.0,
        quorum: int | None = None,
        grace_s: float = 10.0,
        secure: bool = False,
        updates: str = "float32",
        density: float = 0.03,
        outer_rate: float = 1.0,
        outer_momentum: float = 0.0,
    ) -> None:
        """Returns when every member has made one, with the model of the lowest rank in all of them; or, for
        one that comes later, with the model of the others.

        Args:
            model: of the same form at all members. Its parameters are averaged, and its buffers of floating
                point numbers (the running statistics of batch norms) as well.
            group: of `duetlink.group()`.
            every: steps of this member between two rounds.
            weight: how much this member's update counts, such as its number of rows. Members see each other's
                with "int8" and "sparse", and else only the sum of all.
            quorum: how many members have to be ready for a round; by default a majority. Of fewer that are
                left, all.
            grace_s: how long a round waits for the others once there is a quorum.
            secure: add up under masks, so that members see the sum of the updates and of the weights, and
                nothing of one alone. Of three members or more, with updates="float32"; an update times its
                weight lies within a million.
            updates: "float32", summed; "int8", a quarter of the bytes from each member to each; "sparse", the
                largest items alone. The last two are with error feedback, and show the members each other's
                updates.
            density: the part of the items that "sparse" sends.
            outer_rate, outer_momentum: of the step with the mean update. 1 and 0 are federated averaging;
                0.7 and 0.9 are DiLoCo's, for many steps between rounds.

        Raises:
            SettingError: a value that cannot be, or a quorum larger than the group.
            UnsupportedValue: a model that cannot be averaged, or whose parameters are not finite.
            OperationMismatch: another member has another model, or other settings.
            OperationRefused: the group does not allow averages here, or, with "int8" and "sparse",
                "all_gather".
            GroupError, LinkClosed: as any operation of a group.
        """
        if every < 1:
            raise SettingError(f"every is {every}: there is at least one step between two rounds")
        if not _WEIGHTS[0] <= weight <= _WEIGHTS[1]:
            raise SettingError(
                f"weight is {weight!r}: it is above 0, from {_WEIGHTS[0]:g} to {_WEIGHTS[1]:g}, such as the "
                "number of rows"
            )
        if secure and updates != "float32":
            raise SettingError(f"updates is {updates!r}: a secure sum is of float32")
        self._flat = FlatModel(model)
        self._part = Averaged(
            self._flat,
            updates=updates,
            density=density,
            outer=OuterStep(outer_rate, outer_momentum),
            secure=secure,
            weight=float(weight),
            quorum=quorum,
        )
        self._every = every
        self._steps = 0
        shows = "all_gather" if updates != "float32" else "secure_sum" if secure else "average"
        self._rounds = group.rounds(self._part, quorum=quorum, grace_s=grace_s, shows=shows)
        self._anchor = self._flat.read()
        self._rounds.open()
        self._take_in()

    # -- what a training calls -------------------------------------------------------------------------------

    def after_step(self) -> bool:
        """Call this after each step of the optimizer. Every so many times it gives this member's update,
        waits for the round, and returns True with the new model in place. If that is interrupted, the update
        stays given, and the training can go on.

        Raises:
            UnsupportedValue: the model is no longer finite; nothing was given.
            RemoteProtocolError: the updates add up to what is not finite; the round has changed nothing.
            GroupError, LinkClosed: there are no more rounds, as the message says.
        """
        self._steps += 1
        if self._steps >= self._every:
            self._give()
            return True
        if self._part.shared[0] != self._version:
            self._take_in()
        return False

    def proximal(self, strength: float) -> Tensor:
        """A term to add to the loss: `strength / 2` times the squared distance of the parameters from those
        of the last round. It keeps members with unlike rows together (FedProx, Li et al. 2020, equation 2).
        """
        return self._flat.drift(self._center) * (strength / 2.0)

    def close(self) -> None:
        """Give what was learnt since the last round, and follow the rounds of the others until all have
        closed. All members then have the same model. Safe to call twice.

        Raises:
            UnsupportedValue, RemoteProtocolError, GroupError, LinkClosed: as `after_step`.
        """
        if self._steps and not self._rounds.over:
            self._give()
        self._rounds.finish()
        self._take_in()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        if kind is None:
            self.close()

    @property
    def round(self) -> int:
        """How many rounds there have been, also without this member: the same at all within one; it says when
        a training is over.
        """
        return self._rounds.number

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The rounds that have ended since this member came."""
        return tuple(self._rounds.past)

    @property
    def sent_bytes(self) -> int:
        """How much this member's updates took, to each other member (coded) or in the sum (dense)."""
        return self._part.sent_bytes

    def __repr__(self) -> str:
        return f"<LocalSteps round {self._rounds.number}, {self._steps} of {self._every} steps>"

    # -- inside ----------------------------------------------------------------------------------------------

    def _give(self) -> None:
        if self._rounds.gives:  # the wait for an earlier round was interrupted
            self._rounds.give()
            self._take_in()
        now = self._flat.read()
        self._part.offer(now - self._anchor)
        self._anchor, self._steps = now, 0
        self._rounds.give()
        self._take_in()
        last = self._rounds.past[-1] if self._rounds.past else None
        if last is not None and not last.gave:
            raise RemoteProtocolError(
                f"round {last.number} has changed nothing: what the members gave does not add up to "
                "finite numbers"
            )

    def _take_in(self) -> None:
        """The model that all share, and on top of it what was learnt here since the last update."""
        self._version, self._center = self._part.shared
        learnt = self._flat.read() - self._anchor
        self._flat.write(self._center + learnt)
        # by what the model holds now, which half precision rounds
        self._anchor = self._flat.read() - learnt
