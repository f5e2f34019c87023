"""Forward error correction: one more datagram for every few chunks, from which one lost chunk can be
recovered.

The parity of a group is the XOR of its chunks' scales, masses and values. A member that has the parity and
all chunks of the group but one can compute that one. Chunk c belongs to group c modulo the number of groups,
so that a burst of lost datagrams takes one of each of many groups.

    0-3    XOR of the scales, as sent
    4-7    XOR of the masses
    8-     XOR of the values' bytes

If datagrams are lost independently with probability p, a chunk is missing with p (1 - (1 - p)^n) instead of
p, where n is the number of chunks in a group. A Reed-Solomon code over many chunks would leave fewer missing
for the same bytes; it is not used because XOR needs no library, and a missing chunk costs little here.
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
    """A recovered chunk."""

    position: int
    scale: float
    mass: int
    body: memoryview


@dataclass(frozen=True, slots=True)
class Parity:
    """The division of `chunks` chunks into groups of `every` chunks; some may have one fewer."""

    chunks: int
    every: int

    @property
    def groups(self) -> int:
        return -(-self.chunks // self.every)

    def make(self, encoded: Encoded) -> Octets:
        """Return the parity of each group, a row for each."""
        said = np.empty(self.chunks, [("scale", ">f4"), ("mass", ">u4")])
        said["scale"], said["mass"] = encoded.scales, encoded.masses
        rows = np.hstack([said.view(np.uint8).reshape(self.chunks, SAID_BYTES), encoded.bodies])
        made = np.zeros((self.groups, rows.shape[1]), np.uint8)
        for at in range(0, self.chunks, self.groups):
            part = rows[at : at + self.groups]
            made[: len(part)] ^= part
        return made


class Mending:
    """The chunks and parities of one neighbour in one round, as far as they have arrived."""

    def __init__(self, parity: Parity, body_bytes: int) -> None:
        self._parity = parity
        self._fold = np.zeros((parity.groups, SAID_BYTES + body_bytes), np.uint8)
        # the number of missing datagrams by group, including its parity
        sizes = np.bincount(np.arange(parity.chunks) % parity.groups)
        self._due: npt.NDArray[np.int64] = sizes + 1
        self._has_parity = np.zeros(parity.groups, np.bool_)

    def add_chunk(self, position: int, scale: float, mass: int, body: memoryview) -> None:
        """Add a chunk that has arrived for the first time."""
        said = np.frombuffer(_SAID.pack(scale, mass), np.uint8)
        self._add(position % self._parity.groups, np.concatenate([said, np.frombuffer(body, np.uint8)]))

    def add_parity(self, group: int, body: memoryview) -> bool:
        """Add a parity; returns False for a duplicate.

        Raises:
            RemoteProtocolError: its length differs from that of the chunks.
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
        """Recover the only missing chunk of the group, once; None if none or several are missing.

        Raises:
            RemoteProtocolError: the recovered chunk is not valid.
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
