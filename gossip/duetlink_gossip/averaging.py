"""Two ways to average the chunks that have arrived, coordinate by coordinate.

**Fallback.** A missing chunk of a neighbour is replaced by this member's own: x_i += Σ_j w_ij m_j (x_j -
x_i), where m_j is 1 for chunks of j that have arrived. Each result is a weighted mean, whatever was lost. But
the mean over all members drifts where i received from j and j did not receive from i. To measure this, each
chunk carries a probe, a number that begins as the sender's rank and is averaged like the parameters. When the
members agree, its distance from the mean of all ranks is the drift, in units of how far the members were
apart.

**Push-sum** (Kempe, Dobra and Gehrke 2003; with stochastic gradients, Assran et al. 2019) keeps the mean.
Each chunk has a mass, which is given away in the same shares as the values; values divided by mass are the
model. A lost datagram must not lose mass for good. So each datagram carries the sum of everything that was
ever given to this neighbour, and the next one to arrive includes what earlier ones would have brought
(Hadjicostis, Vaidya and Domínguez-García 2016). These sums are integers modulo 2^32 of a fixed unit: they
neither grow nor round, and the difference of two is exact as long as less than 8192 is in flight.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from duetlink.errors import RemoteProtocolError, UnsupportedValue
from duetlink_gossip.chunks import Encoded, Floats, decode, encode, item_bytes

Masses = npt.NDArray[np.uint32]

_VALUE = 1 << 18  # the integer of 1.0: range 8192, resolution 4e-6
_MASS = 1 << 24  # range 128: the mass of at most that many members
_MOST_GIVEN = 64.0  # the most given at once: 128 lost in a row are made up for
_PROBE_ROUNDS = 100  # probes start again, since one that all agree on shows no further drift


@dataclass(slots=True)
class ReceivedChunks:
    """The chunks that have arrived from one neighbour in one round."""

    values: npt.NDArray[Any]  # (chunks, length)
    masses: Masses
    have: npt.NDArray[np.bool_]


class Averaging(Protocol):
    """The interface of a way to average. Chunks are of shape (chunks, length)."""

    precision: str  # the type of a value in a datagram
    item_bytes: int  # the size of a value in a datagram
    dtype: npt.DTypeLike  # the type of decoded values

    def give(
        self, chunks: Floats, weights: Mapping[int, float], round_: int, rng: np.random.Generator
    ) -> Mapping[int, Encoded]:
        """Encode the chunks for each neighbour in this round. Raises UnsupportedValue for values out of
        range.
        """

    def decode(self, body: memoryview, scale: float, length: int) -> npt.NDArray[Any]:
        """Decode one chunk's values. Raises RemoteProtocolError."""

    def combine(self, weights: Mapping[int, float], received: Mapping[int, ReceivedChunks]) -> Floats:
        """Average the chunks of `give` with those that have arrived."""

    @property
    def drift(self) -> float | None:
        """The estimated movement of the mean over all members; None if it cannot move."""

    def state(self) -> dict[str, Any]:
        """Return the state for a resume: arrays and numbers by name."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state that `state` returned."""


class Fallback:
    """Replaces missing chunks of a neighbour by this member's own."""

    dtype: npt.DTypeLike = np.float32

    def __init__(self, rank: int, size: int, chunks: int, precision: str) -> None:
        self.precision, self.item_bytes = precision, item_bytes(precision)
        self._rank, self._size = rank, size
        self._chunks: Floats = np.zeros((0, 0), np.float32)
        self._probes = np.full(chunks, rank, np.float32)
        self._period = -1

    def give(
        self, chunks: Floats, weights: Mapping[int, float], round_: int, rng: np.random.Generator
    ) -> Mapping[int, Encoded]:
        self._chunks = chunks
        if round_ // _PROBE_ROUNDS != self._period:
            self._period = round_ // _PROBE_ROUNDS
            self._probes[:] = self._rank
        encoded = Encoded(*encode(chunks, self.precision, rng), self._probes.view(np.uint32).tolist())
        return dict.fromkeys(weights, encoded)

    def decode(self, body: memoryview, scale: float, length: int) -> npt.NDArray[Any]:
        return decode(body, scale, length, self.precision)

    def combine(self, weights: Mapping[int, float], received: Mapping[int, ReceivedChunks]) -> Floats:
        mixed, probes = self._chunks.copy(), self._probes.copy()
        for of, weight in weights.items():
            if of in received:
                have = received[of].have
                mixed[have] += np.float32(weight) * (received[of].values[have] - self._chunks[have])
                probe = received[of].masses.view(np.float32)[have]
                # a neighbour's nonsense must not spoil the probe
                probe = np.where(np.isfinite(probe), np.clip(probe, 0, self._size), self._probes[have])
                probes[have] += np.float32(weight) * (probe - self._probes[have])
        self._probes = probes
        return mixed

    @property
    def drift(self) -> float | None:
        middle = (self._size - 1) / 2
        spread = np.sqrt((self._size**2 - 1) / 12)  # standard deviation of the ranks
        return float((self._probes.mean() - middle) / spread)

    def state(self) -> dict[str, Any]:
        return {"probes": self._probes.copy(), "period": self._period}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._probes[:] = state["probes"]
        self._period = int(state["period"])


class PushSum:
    """Sends masses with the values; later datagrams make up for lost ones."""

    precision, item_bytes = "int32", 4
    dtype: npt.DTypeLike = np.uint32

    def __init__(self, chunks: int, length: int) -> None:
        self._shape = (chunks, length)
        self._mass = np.ones(chunks, np.float64)
        self._kept = np.zeros(self._shape, np.float64)
        # everything ever given to, and taken from, each neighbour; modulo 2^32
        self._given: dict[int, tuple[npt.NDArray[np.uint32], Masses]] = {}
        self._taken: dict[int, tuple[npt.NDArray[np.uint32], Masses]] = {}

    def give(
        self, chunks: Floats, weights: Mapping[int, float], round_: int, rng: np.random.Generator
    ) -> Mapping[int, Encoded]:
        values = chunks * self._mass[:, None]
        largest = float(np.abs(values).max())
        # checked first: what is given and not sent would be lost
        if max(weights.values(), default=0.0) * largest > _MOST_GIVEN:
            raise UnsupportedValue(f"push-sum takes parameters up to {_MOST_GIVEN}, not {largest:g}")
        self._kept, kept_mass = values.copy(), self._mass.copy()
        found = {}
        for to, weight in weights.items():
            share, mass = np.rint(weight * values * _VALUE), np.rint(weight * self._mass * _MASS)
            self._kept -= share / _VALUE
            kept_mass -= mass / _MASS
            given, given_mass = self._given.setdefault(to, self._nothing())
            given += share.astype(np.int64).astype(np.uint32)
            given_mass += mass.astype(np.int64).astype(np.uint32)
            bodies = given.astype("<u4").view(np.uint8)
            found[to] = Encoded([1.0] * len(chunks), bodies, given_mass.tolist())
        self._mass = kept_mass
        return found

    def decode(self, body: memoryview, scale: float, length: int) -> npt.NDArray[Any]:
        if len(body) != 4 * length:
            raise RemoteProtocolError(f"a chunk of {len(body)} bytes, where {length} int32 were due")
        return np.frombuffer(body, "<u4").astype(np.uint32)

    def combine(self, weights: Mapping[int, float], received: Mapping[int, ReceivedChunks]) -> Floats:
        for of, arrived in received.items():
            taken, taken_mass = self._taken.setdefault(of, self._nothing())
            have = arrived.have
            # the difference modulo 2^32, as a signed number
            fresh = (arrived.values[have] - taken[have]).view(np.int32)
            fresh_mass = (arrived.masses[have] - taken_mass[have]).view(np.int32)
            taken[have], taken_mass[have] = arrived.values[have], arrived.masses[have]
            self._kept[have] += fresh / _VALUE
            self._mass[have] += fresh_mass / _MASS
        # a dishonest member can remove mass; a mass of 0 would turn the model into infinities
        self._mass = np.maximum(self._mass, 1 / _MASS)
        return (self._kept / self._mass[:, None]).astype(np.float32)

    @property
    def drift(self) -> float | None:
        return None

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = {"mass": self._mass.copy()}
        for name, sums in (("given", self._given), ("taken", self._taken)):
            for other, (values, masses) in sums.items():
                found[f"{name} {other}"] = values.copy()
                found[f"{name} mass {other}"] = masses.copy()
        return found

    def restore(self, state: Mapping[str, Any]) -> None:
        self._mass[:] = state["mass"]
        for name, sums in (("given", self._given), ("taken", self._taken)):
            sums.clear()
            for key, values in state.items():
                first, _, other = key.rpartition(" ")
                if first == name:
                    sums[int(other)] = (values.copy(), state[f"{name} mass {other}"].copy())

    def _nothing(self) -> tuple[npt.NDArray[np.uint32], Masses]:
        return np.zeros(self._shape, np.uint32), np.zeros(self._shape[0], np.uint32)
