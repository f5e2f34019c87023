"""Two ways to average with what has arrived, coordinate by coordinate, chunk by chunk.

**Fallback.** What is missing of a neighbour is taken to be as one's own: x_i += Σ_j w_ij m_j (x_j - x_i),
where m_j says which chunks of j arrived. Each result is a weighted mean, whatever was lost. The mean over all
members drifts, though, where i heard j and j did not hear i. Each chunk carries a probe beside its
parameters, which begins as the sender's rank and is averaged as they are: how far it is from the mean of all
ranks, when the members agree, is the drift, in units of how far the members were apart.

**Push-sum** (Kempe, Dobra and Gehrke 2003; with stochastic gradients, Assran et al. 2019) keeps the mean.
Each chunk has a mass, which is given away in the same shares as the values; values divided by mass are the
model. What is lost on the way would be lost for good, so a datagram has the sum of all that was ever given to
this neighbour, and the next one to arrive makes good for those that did not (Hadjicostis, Vaidya and
Domínguez-García 2016). These sums are integers modulo 2^32 of a fixed unit: they neither grow nor round, and
the difference of two is exact as long as what is under way is below 8192.
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

_VALUE = 1 << 18  # integers in 1.0: range 8192, resolution 4e-6
_MASS = 1 << 24  # range 128, of members at most as many
_MOST_GIVEN = 64.0  # at once: 128 lost in a row are made good
_PROBE_ROUNDS = 100  # a probe that all agree on shows no further drift


@dataclass(slots=True)
class Heard:
    """The chunks that have arrived from one neighbour in one round."""

    values: npt.NDArray[Any]  # (chunks, length)
    masses: Masses
    have: npt.NDArray[np.bool_]


class Averaging(Protocol):
    """What a node asks of a way to average. Chunks are of shape (chunks, length)."""

    precision: str  # how values travel
    item_bytes: int  # of one of them
    dtype: npt.DTypeLike  # of values that have arrived

    def give(
        self, chunks: Floats, weights: Mapping[int, float], round_: int, rng: np.random.Generator
    ) -> Mapping[int, Encoded]:
        """What goes to each neighbour in this round. Raises UnsupportedValue for what cannot travel."""

    def decode(self, body: memoryview, scale: float, length: int) -> npt.NDArray[Any]:
        """One chunk's values. Raises RemoteProtocolError."""

    def combine(self, weights: Mapping[int, float], heard: Mapping[int, Heard]) -> Floats:
        """The chunks of `give`, averaged with what has arrived."""

    @property
    def drift(self) -> float | None:
        """How far the mean over all members seems to have moved; None where it cannot."""

    def state(self) -> dict[str, Any]:
        """What has to be kept for a resume: arrays and numbers by name."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""


class Fallback:
    """What is missing of a neighbour is taken to be as one's own."""

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

    def combine(self, weights: Mapping[int, float], heard: Mapping[int, Heard]) -> Floats:
        mixed, probes = self._chunks.copy(), self._probes.copy()
        for of, weight in weights.items():
            if of in heard:
                have = heard[of].have
                mixed[have] += np.float32(weight) * (heard[of].values[have] - self._chunks[have])
                told = heard[of].masses.view(np.float32)[have]
                # of a neighbour that says nonsense the probe says nothing
                told = np.where(np.isfinite(told), np.clip(told, 0, self._size), self._probes[have])
                probes[have] += np.float32(weight) * (told - self._probes[have])
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
    """Masses travel with the values, and what is lost is made good by what arrives next."""

    precision, item_bytes = "int32", 4
    dtype: npt.DTypeLike = np.uint32

    def __init__(self, chunks: int, length: int) -> None:
        self._shape = (chunks, length)
        self._mass = np.ones(chunks, np.float64)
        self._kept = np.zeros(self._shape, np.float64)
        # all that was ever given to, and has been taken of, each neighbour; modulo 2^32
        self._given: dict[int, tuple[npt.NDArray[np.uint32], Masses]] = {}
        self._taken: dict[int, tuple[npt.NDArray[np.uint32], Masses]] = {}

    def give(
        self, chunks: Floats, weights: Mapping[int, float], round_: int, rng: np.random.Generator
    ) -> Mapping[int, Encoded]:
        values = chunks * self._mass[:, None]
        largest = float(np.abs(values).max())
        # before anything is given: what was given and is not sent would be gone
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

    def combine(self, weights: Mapping[int, float], heard: Mapping[int, Heard]) -> Floats:
        for of, arrived in heard.items():
            taken, taken_mass = self._taken.setdefault(of, self._nothing())
            have = arrived.have
            # the difference modulo 2^32, taken for a signed number
            fresh = (arrived.values[have] - taken[have]).view(np.int32)
            fresh_mass = (arrived.masses[have] - taken_mass[have]).view(np.int32)
            taken[have], taken_mass[have] = arrived.values[have], arrived.masses[have]
            self._kept[have] += fresh / _VALUE
            self._mass[have] += fresh_mass / _MASS
        # a liar can take mass away; a mass of nothing would make infinities of the model
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
