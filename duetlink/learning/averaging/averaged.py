"""The state of one member between rounds: the shared numbers, and its next update."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from duetlink.errors import OperationAborted, PeerLost, RemoteProtocolError, UnsupportedValue
from duetlink.groups.api.rounds import Meeting
from duetlink.groups.collectives.reduce_options import ReduceOptions
from duetlink.groups.membership.messages import MOST_MEMBERS
from duetlink.groups.secure.sums import SecureSum
from duetlink.learning.averaging import updates as coding
from duetlink.learning.averaging.flat import FlatModel, Floats
from duetlink.learning.averaging.outer import OuterStep

_WEIGHT = struct.Struct("<d")
_ALL = frozenset(range(MOST_MEMBERS))


class Averaged:
    """A `Part` of a round (`groups/api/rounds.py`). Its shared numbers have the same bits at all members."""

    def __init__(
        self,
        flat: FlatModel,
        *,
        updates: str,
        density: float,
        outer: OuterStep,
        weight: float,
        secure: bool,
        quorum: int | None,
    ) -> None:
        self._compressor = coding.compressor(updates, density)
        self._outer, self._weight = outer, weight
        self._parameters = flat.parameters
        self._velocity = np.zeros(flat.parameters, np.float32)
        self._pending_update: Floats | bytes = b""
        self._secure = secure
        self._attempt: tuple[SecureSum, dict[str, Any], bool] | None = (
            None  # a secure sum that is not finished
        )
        self.form = flat.digest([updates, density, outer.rate, outer.momentum, secure, quorum])
        # replaced as a whole, since the notebook's thread reads it
        self.shared: tuple[int, Floats] = (0, checked(flat.read()))
        self.sent_bytes = 0
        self.gave = False

    def offer(self, update: Floats) -> None:
        """Keep an update for the next round. Raises UnsupportedValue, keeping nothing, if not finite."""
        update = checked(update)
        self._pending_update = update if self._compressor is None else coding.encode(self._compressor, update)

    def state(self) -> dict[str, Floats]:
        return {"numbers": self.shared[1], "velocity": self._velocity}

    def load(self, state: Any) -> None:
        version, numbers = self.shared
        found = state if isinstance(state, dict) else {}
        for name, like in (("numbers", numbers), ("velocity", self._velocity)):
            array = found.get(name)
            if not isinstance(array, np.ndarray) or array.dtype != np.float32 or array.shape != like.shape:
                raise RemoteProtocolError(f"a member's state has no {name} as this model has them")
            if not np.isfinite(array).all():
                raise RemoteProtocolError(f"a member's state has {name} that are not finite")
        self._velocity = found["velocity"]
        self.shared = (version + 1, found["numbers"])

    async def exchange(self, meeting: Meeting) -> Any:
        if self._compressor is not None:
            return await self._gather(meeting)
        if self._secure:
            return await self._sum_securely(meeting)
        value = self._weighted(meeting.gives)
        await meeting.note(value)
        found = await meeting.collectives.all_reduce(value, call=meeting.call)
        self._note_given(meeting.gives)
        return found

    def _weighted(self, gives: bool) -> dict[str, Any]:
        update = self._pending_update if gives else np.zeros(len(self.shared[1]), np.float32)
        weight = np.float64(self._weight if gives else 0.0)
        assert isinstance(update, np.ndarray)
        return {"update": update * np.float32(weight), "weight": weight}

    def _note_given(self, gave: bool) -> None:
        self.gave = gave
        self.sent_bytes += (
            len(self._pending_update) * (4 if isinstance(self._pending_update, np.ndarray) else 1)
            if gave
            else 0
        )

    async def _sum_securely(self, meeting: Meeting) -> Any:
        """Sum under masks. After a loss, finish the interrupted sum with the values that were in it.

        This includes the lost member's update: a second sum of the others' same updates would reveal it as
        the difference.
        """
        if self._attempt is None:
            self._attempt = (SecureSum(), self._weighted(meeting.gives), meeting.gives)
        secure, value, gives = self._attempt
        await meeting.note(value)
        try:
            found = await secure.run(
                meeting.collectives, meeting.party, value, ReduceOptions(secure=True), call=meeting.call
            )
        except (PeerLost, OperationAborted):
            raise
        except Exception:
            self._attempt = None
            raise
        self._attempt = None
        self._note_given(gives)
        return found

    async def _gather(self, meeting: Meeting) -> Any:
        data = _WEIGHT.pack(self._weight) + bytes(self._pending_update) if meeting.gives else b""
        coded = np.frombuffer(data, np.uint8)
        if meeting.gives:
            await meeting.note(coded)
        every = await meeting.collectives.all_gather(coded, call=meeting.call)
        self._note_given(meeting.gives)
        return every

    def advance(self, found: Any) -> frozenset[int]:
        version, numbers = self.shared
        if self._compressor is None:
            refused: frozenset[int] = frozenset()
            total, weight = found["update"], float(found["weight"])
        else:
            total, weight, refused = self._sum(found)
        with np.errstate(all="ignore"):  # values that are not finite are found below
            mean = (total / np.float32(weight)).astype(np.float32) if weight > 0.0 else total
            after, velocity = self._outer.step(numbers, self._velocity, mean, self._parameters)
        if not (weight > 0.0 and np.isfinite(after).all() and np.isfinite(velocity).all()):
            return _ALL
        self._velocity = velocity
        self.shared = (version + 1, after)
        return refused

    def _sum(self, updates_by_rank: list[Any]) -> tuple[Floats, float, frozenset[int]]:
        """Sum decoded updates in the order of ranks, for equal bits; returns the sum, the weight and the
        refused ranks.
        """
        total = np.zeros(len(self.shared[1]), np.float32)
        weights, refused = 0.0, set()
        for rank, coded in enumerate(updates_by_rank):
            data = coded.tobytes() if isinstance(coded, np.ndarray) and coded.dtype == np.uint8 else b"?"
            if not data:
                continue
            weight = _WEIGHT.unpack_from(data)[0] if len(data) > _WEIGHT.size else 0.0
            update = coding.read(data[_WEIGHT.size :], len(total)) if 0.0 < weight < np.inf else None
            if update is None:
                refused.add(rank)
                continue
            with np.errstate(all="ignore"):
                total += np.float32(weight) * update
            weights += weight
        return total, weights, frozenset(refused)


def checked(numbers: Floats) -> Floats:
    """Return the numbers. Raises UnsupportedValue unless all are finite."""
    wrong = len(numbers) - int(np.isfinite(numbers).sum())
    if wrong:
        raise UnsupportedValue(
            f"{wrong:,} of the model's {len(numbers):,} numbers are not finite, so nothing is given: go back "
            "to an earlier state, or lower the learning rate"
        )
    return numbers
