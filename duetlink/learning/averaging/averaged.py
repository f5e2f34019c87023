"""What goes from round to round at one member: the shared numbers, and this member's next update."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from duetlink.errors import RemoteProtocolError, UnsupportedValue
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.membership.messages import MOST_MEMBERS
from duetlink.groups.rounds import Note
from duetlink.learning.averaging import updates as coding
from duetlink.learning.averaging.flat import FlatModel, Floats
from duetlink.learning.averaging.outer import OuterStep

_WEIGHT = struct.Struct("<d")
_ALL = frozenset(range(MOST_MEMBERS))


class Averaged:
    """A `Part` of `duetlink.groups.rounds`. The numbers and the velocity are the same bits at all members."""

    def __init__(
        self,
        flat: FlatModel,
        *,
        updates: str,
        density: float,
        outer: OuterStep,
        weight: float,
        quorum: int | None,
    ) -> None:
        self._compressor = coding.compressor(updates, density)
        self._outer, self._weight = outer, weight
        self._parameters = flat.parameters
        self._velocity = np.zeros(flat.parameters, np.float32)
        self._gift: Floats | bytes = b""
        self.form = flat.digest([updates, density, outer.rate, outer.momentum, quorum])
        # replaced as a whole, since the notebook's own thread reads it
        self.shared: tuple[int, Floats] = (0, checked(flat.read()))
        self.sent_bytes = 0

    def offer(self, update: Floats) -> None:
        """For the next round. Raises UnsupportedValue, and changes nothing, for what is not finite."""
        update = checked(update)
        self._gift = update if self._compressor is None else coding.encode(self._compressor, update)

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

    async def exchange(self, collectives: Collectives, gives: bool, note: Note, call: str) -> Any:
        if self._compressor is None:
            gift = self._gift if gives else np.zeros(len(self.shared[1]), np.float32)
            weight = np.float64(self._weight if gives else 0.0)
            assert isinstance(gift, np.ndarray)
            value = {"update": gift * np.float32(weight), "weight": weight}
            await note(value)
            found = await collectives.all_reduce(value, "sum", call=call)
            self.sent_bytes += gift.nbytes if gives else 0
            return found
        data = _WEIGHT.pack(self._weight) + bytes(self._gift) if gives else b""
        coded = np.frombuffer(data, np.uint8)
        if gives:
            await note(coded)
        every = await collectives.all_gather(coded, call=call)
        self.sent_bytes += len(data)
        return every

    def advance(self, found: Any) -> frozenset[int]:
        version, numbers = self.shared
        if self._compressor is None:
            refused: frozenset[int] = frozenset()
            total, weight = found["update"], float(found["weight"])
        else:
            total, weight, refused = self._sum(found)
        with np.errstate(all="ignore"):  # what is not finite is looked for below
            mean = (total / np.float32(weight)).astype(np.float32) if weight > 0.0 else total
            after, velocity = self._outer.step(numbers, self._velocity, mean, self._parameters)
        if not (weight > 0.0 and np.isfinite(after).all() and np.isfinite(velocity).all()):
            return _ALL
        self._velocity = velocity
        self.shared = (version + 1, after)
        return refused

    def _sum(self, gifts: list[Any]) -> tuple[Floats, float, frozenset[int]]:
        """In the order of ranks, so that it is the same bits at all members."""
        total = np.zeros(len(self.shared[1]), np.float32)
        weights, refused = 0.0, set()
        for rank, gift in enumerate(gifts):
            data = gift.tobytes() if isinstance(gift, np.ndarray) and gift.dtype == np.uint8 else b"?"
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
    """Raises UnsupportedValue unless all are finite."""
    wrong = len(numbers) - int(np.isfinite(numbers).sum())
    if wrong:
        raise UnsupportedValue(
            f"{wrong:,} of the model's {len(numbers):,} numbers are not finite, so nothing is given: go back "
            "to an earlier state, or lower the learning rate"
        )
    return numbers
