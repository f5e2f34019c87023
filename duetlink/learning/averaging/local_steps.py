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

_WEIGHTS = (1e-15, 1e15)  # so that the product with an update stays within float32


class LocalSteps:
    """Averages the models of several members after every `every` local steps of each.

        steps = LocalSteps(model, group, every=100, weight=len(rows))
        for batch in ...:
            ...  # one step of any optimizer
            steps.after_step()
        steps.close()

    In a round each member gives its *update*: its model now, minus its model after the last round. The
    weighted mean of the updates moves the model that all share. A member that pauses does not stop the
    others: a round ends without it, `grace_s` seconds after a quorum is ready. When it steps again it takes
    over the rounds that it has missed, keeps its own progress, and gives that to the next round. Members can
    leave; where the group was made without a size, new members can join, and get the others' state at the
    next round. No rows are sent; each round is in the audit log.

    While it is open, no other operations of the group can be called.
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
        """Wait until every member has made one, then put the model of the lowest rank in place at all.

        A member that comes later gets the model of the others.

        Args:
            model: of the same form at all members. Its parameters are averaged, and its floating point
                buffers (the running statistics of batch norms) as well.
            group: of `duetlink.group()`.
            every: steps of this member between two rounds.
            weight: the factor of this member's update in the mean, such as its number of rows. With "int8"
                and "sparse", members see each other's weights; otherwise only the sum of all.
            quorum: the number of members that have to be ready for a round; by default a majority. If fewer
                members are left, all of them.
            grace_s: seconds that a round waits for the others once there is a quorum.
            secure: add under masks, so that members see only the sums of the updates and of the weights. For
                three members or more, with updates="float32"; an update times its weight must be within a
                million.
            updates: "float32" is summed. "int8" sends a quarter of the bytes from each member to each.
                "sparse" sends only the largest items. The last two use error feedback, and show the members
                each other's updates.
            density: the share of the items that "sparse" sends.
            outer_rate, outer_momentum: of the step with the mean update. 1 and 0 are federated averaging; 0.7
                and 0.9 are DiLoCo's, for many steps between rounds.

        Raises:
            SettingError: a value is out of range, or the quorum is larger than the group.
            UnsupportedValue: the model cannot be averaged, or its parameters are not finite.
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
        """Count a step; call this after each step of the optimizer. Returns True after a round.

        Every `every` steps it gives this member's update, waits for the round, and puts the new model in
        place. If that is interrupted, the update stays given, and the training can go on.

        Raises:
            UnsupportedValue: the model is no longer finite; nothing was given.
            RemoteProtocolError: the sum of the updates is not finite; the round has changed nothing.
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
        """Return a term to add to the loss: `strength / 2` times the squared distance from the last round's
        parameters.

        It limits how far members with different rows move apart (FedProx, Li et al. 2020, equation 2).
        """
        return self._flat.drift(self._center) * (strength / 2.0)

    def close(self) -> None:
        """Give the progress since the last round, and take part in the others' rounds until all have closed.

        All members then have the same model. Safe to call twice.

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
        """The number of rounds so far, including those without this member.

        It is the same at all members within one round, so all can end a training at the same number.
        """
        return self._rounds.number

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The rounds that have ended since this member joined."""
        return tuple(self._rounds.past)

    @property
    def sent_bytes(self) -> int:
        """The bytes of this member's updates: to each other member (coded), or into the sum (dense)."""
        return self._part.sent_bytes

    def __repr__(self) -> str:
        return f"<LocalSteps round {self._rounds.number}, {self._steps} of {self._every} steps>"

    # -- inside ----------------------------------------------------------------------------------------------

    def _give(self) -> None:
        if self._rounds.gives:  # an earlier wait for a round was interrupted
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
        """Put the shared model in place, plus this member's progress since its last update."""
        self._version, self._center = self._part.shared
        learnt = self._flat.read() - self._anchor
        self._flat.write(self._center + learnt)
        # read back, since a half precision model rounds
        self._anchor = self._flat.read() - learnt
