"""Forward error correction: for every few chunks a datagram more, from which one that was lost is made again.

The parity of a group is the XOR of all that its chunks' datagrams say: scale, mass and values. Whoever has it
and all chunks of the group but one, has that one too. Chunk c is of group c modulo the number of groups, so
that a burst of lost datagrams takes one of each of many groups.

    0-3    XOR of the scales, as they travel
    4-7    XOR of the masses
    8-     XOR of the values' bytes

Where datagrams are lost with probability p, each by itself, a chunk is missing with p (1 - (1 - p)^n) instead
of p, where n is the number of chunks in a group. A Reed-Solomon code over many chunks would leave fewer
missing for as many bytes; it is not used because XOR needs no library, and what is missing here costs little.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from duetlink.errors import RemoteProtocolError
from duetlink_gossip.chunks import Encoded, Octets

_SAID = struct.Struct("!fI")  # scale and mass
SAID_BYTES = _SAID.size


class Mended(NamedTuple):
    """A chunk that was made again."""

    position: int
    scale: float
    mass: int
    body: memoryview


@dataclass(frozen=True, slots=True)
class Parity:
    """How `chunks` chunks are in groups of `every` chunks, or one fewer where they do not come out even."""

    chunks: int
    every: int

    @property
    def groups(self) -> int:
        return -(-self.chunks // self.every)

    def make(self, encoded: Encoded) -> Octets:
        """The parity of each group, a row for each."""
        said = np.empty(self.chunks, [("scale", ">f4"), ("mass", ">u4")])
        said["scale"], said["mass"] = encoded.scales, encoded.masses
        rows = np.hstack([said.view(np.uint8).reshape(self.chunks, SAID_BYTES), encoded.bodies])
        made = np.zeros((self.groups, rows.shape[1]), np.uint8)
        for at in range(0, self.chunks, self.groups):
            part = rows[at : at + self.groups]
            made[: len(part)] ^= part
        return made


class Mending:
    """What has come of one neighbour's chunks and parities in one round."""

    def __init__(self, parity: Parity, body_bytes: int) -> None:
        self._parity = parity
        self._fold = np.zeros((parity.groups, SAID_BYTES + body_bytes), np.uint8)
        # how many datagrams of each group have not come, its parity among them
        sizes = np.bincount(np.arange(parity.chunks) % parity.groups)
        self._due: npt.NDArray[np.int64] = sizes + 1
        self._has_parity = np.zeros(parity.groups, np.bool_)

    def add_chunk(self, position: int, scale: float, mass: int, body: memoryview) -> None:
        """A chunk that was not there has come."""
        said = np.frombuffer(_SAID.pack(scale, mass), np.uint8)
        self._add(position % self._parity.groups, np.concatenate([said, np.frombuffer(body, np.uint8)]))

    def add_parity(self, group: int, body: memoryview) -> bool:
        """A parity has come; False where it was there.

        Raises:
            RemoteProtocolError: it is of another length than the chunks.
        """
        width = self._fold.shape[1]
        if len(body) != width:
            raise RemoteProtocolError(f"a parity of {len(body)} bytes, where {width} were due")
        if self._has_parity[group]:
            return False
        self._has_parity[group] = True
        self._add(group, np.frombuffer(body, np.uint8))
        return True

    def mend(self, group: int, have: npt.NDArray[np.bool_]) -> Mended | None:
        """The only chunk of the group that is missing, once; None where all are there, or too few.

        Raises:
            RemoteProtocolError: what comes out cannot have been sent.
        """
        if self._due[group] != 1 or not self._has_parity[group]:
            return None
        self._due[group] = 0
        positions = np.arange(group, self._parity.chunks, self._parity.groups)
        position = int(positions[~have[positions]][0])
        row = self._fold[group].tobytes()
        scale, mass = _SAID.unpack_from(row)
        if not (math.isfinite(scale) and scale >= 0):
            raise RemoteProtocolError(f"a parity by which chunk {position} has a scale of {scale}")
        return Mended(position, scale, mass, memoryview(row)[SAID_BYTES:])

    def _add(self, group: int, octets: Octets) -> None:
        self._fold[group] ^= octets
        self._due[group] -= 1
