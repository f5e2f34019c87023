"""A model as datagrams of which each is usable alone: who has lost some averages the rest.

Parameters are dealt out to the chunks like cards, so that a burst of lost datagrams takes a little of every
layer and no layer whole. Each chunk has a scale of its own, and says of which round and which chunk it is.

    0      kind: DATA; ASK, which asks for chunks that were lost; or PARITY, see parity.py
    2-3    how many neighbours the sender has in this round; of fragments, to how many each goes
    4-7    which gossip this is: who has met for it
    8-11   digest of what all members must have alike: names and shapes, graph, seed, precision
    12-19  round
    20-23  how many parameters the model has
    24-27  position: which chunk this is, or the parity of which group; of an ASK 0
    28-31  scale: what an integer of 1 stands for
    32-35  mass: see averaging.py; of fragments the datagram's number, of this round's to this receiver
    36-37  how many chunks of the receiver's last round arrived here, and
    40-43  how many seconds lay between two of them: what the receiver paces itself by
    44-    the values, or a parity; of an ASK a bit for each chunk that is wanted

All big-endian, but the values, which are little-endian.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from duetlink.errors import LimitExceeded, RemoteProtocolError, SettingError

DATA, ASK, PARITY = 1, 2, 3

Matrix = npt.NDArray[Any]  # a chunk in each row
Floats = npt.NDArray[np.float32]
Octets = npt.NDArray[np.uint8]

_HEAD = struct.Struct("!BxHIIQIIfIHxxf")
HEAD_BYTES = _HEAD.size

# bytes of a value, and the largest integer; a float needs no scale
_PRECISIONS: dict[str, tuple[str, int]] = {
    "float32": ("<f4", 0),
    "int16": ("<i2", 32767),
    "int8": ("i1", 127),
}

MOST_CHUNKS = 65_535
_MOST_ROUND = 1 << 62


class ChunkHead(NamedTuple):
    """What a datagram says of itself."""

    kind: int
    degree: int
    epoch: int
    form: int
    round: int
    parameters: int
    position: int
    scale: float
    mass: int
    heard: int
    spacing_s: float

    def to_wire(self) -> bytes:
        return _HEAD.pack(*self)

    @classmethod
    def from_wire(cls, payload: bytes) -> ChunkHead:
        """Raises RemoteProtocolError where it is none."""
        if len(payload) < HEAD_BYTES:
            raise RemoteProtocolError(f"a gossip datagram of {len(payload)} bytes has no room for its head")
        head = cls(*_HEAD.unpack_from(payload))
        if head.kind not in (DATA, ASK, PARITY):
            raise RemoteProtocolError(f"a gossip datagram of kind {head.kind}")
        if head.round > _MOST_ROUND or not (math.isfinite(head.scale) and head.scale >= 0):
            raise RemoteProtocolError(f"a gossip datagram of round {head.round} with scale {head.scale}")
        if not (math.isfinite(head.spacing_s) and head.spacing_s >= 0):
            raise RemoteProtocolError(f"a gossip datagram that says {head.spacing_s} s lay between two")
        return head


@dataclass(frozen=True, slots=True)
class Strides:
    """How a vector of `count` numbers lies in `chunks` chunks: chunk c has the numbers c, c + chunks, …

    Of some chunks the last number is padding, so that all are of one length.
    """

    count: int
    chunks: int

    @classmethod
    def fitting(cls, count: int, mtu_bytes: int, item_bytes: int) -> Strides:
        """As few chunks as go into datagrams of `mtu_bytes`.

        Raises:
            SettingError: there are no parameters, or too many for so small datagrams.
        """
        fits = (mtu_bytes - HEAD_BYTES) // item_bytes
        if fits < 1 or not 1 <= count <= fits * MOST_CHUNKS or count >= 1 << 32:
            raise SettingError(
                f"{count} parameters do not go into datagrams of {mtu_bytes} bytes: there is room for 1 to "
                f"{max(0, fits) * MOST_CHUNKS}"
            )
        return cls(count, -(-count // fits))

    @property
    def length(self) -> int:
        """Numbers in a chunk."""
        return -(-self.count // self.chunks)

    def deal(self, vector: Floats) -> Floats:
        """The chunks of a vector, shape (chunks, length); a copy."""
        padded = np.zeros(self.chunks * self.length, np.float32)
        padded[: self.count] = vector
        return np.ascontiguousarray(padded.reshape(self.length, self.chunks).T)

    def gather(self, chunks: Floats) -> Floats:
        """The vector of these chunks; a copy."""
        return np.ascontiguousarray(chunks.T).reshape(-1)[: self.count]


class Encoded(NamedTuple):
    """All chunks of a model as they travel."""

    scales: list[float]
    bodies: Octets  # a row for each
    masses: list[int]


def item_bytes(precision: str) -> int:
    """How many bytes a value takes. Raises SettingError for a precision that is not there."""
    if precision not in _PRECISIONS:
        raise SettingError(f"precision is {precision!r}: there are {', '.join(_PRECISIONS)}")
    return np.dtype(_PRECISIONS[precision][0]).itemsize


def encode(chunks: Floats, precision: str, rng: np.random.Generator) -> tuple[list[float], Octets]:
    """Scales and bytes. Integers are rounded up or down by chance, so that their mean is the value."""
    dtype, most = _PRECISIONS[precision]
    if not most:
        return [1.0] * len(chunks), chunks.astype(dtype).view(np.uint8)
    # what fits a float32 on the wire is also what is divided by
    scales = (np.abs(chunks).max(axis=1) / most).astype(np.float32)
    divisors = np.where(scales > 0, scales, np.float32(1))[:, None]
    drawn = rng.random(chunks.shape, np.float32)
    rounded = np.clip(np.floor(chunks / divisors + drawn), -most, most)
    return scales.tolist(), rounded.astype(dtype).view(np.uint8)


def decode(body: memoryview, scale: float, length: int, precision: str) -> Floats:
    """The values of one chunk, float32. Raises RemoteProtocolError where they are none."""
    dtype, most = _PRECISIONS[precision]
    if len(body) != length * np.dtype(dtype).itemsize:
        raise RemoteProtocolError(f"a chunk of {len(body)} bytes, where {length} {precision} were due")
    values = np.frombuffer(body, dtype).astype(np.float32)
    if most:
        with np.errstate(over="ignore"):  # what overflows is refused
            values *= np.float32(scale)
    if not np.isfinite(values).all():
        raise RemoteProtocolError("a chunk has values that are not finite: NaN or infinity")
    return values


def ask(head: ChunkHead, wanted: npt.NDArray[np.bool_]) -> bytes:
    """A datagram that asks for chunks."""
    return head.to_wire() + np.packbits(wanted).tobytes()


def asked(body: memoryview, chunks: int) -> list[int]:
    """The positions that an ASK wants. Raises RemoteProtocolError."""
    if len(body) != -(-chunks // 8):
        raise LimitExceeded(f"{len(body)} bytes ask for chunks, of which there are {chunks}")
    bits = np.unpackbits(np.frombuffer(body, np.uint8))
    if bits[chunks:].any():
        raise RemoteProtocolError(f"chunks are asked for that are none of {chunks}")
    return [int(position) for position in np.flatnonzero(bits)]


def form_of(*settings: Iterable[object] | object) -> int:
    """A digest of 32 bits of what all members must have alike."""
    return int.from_bytes(hashlib.blake2b(repr(settings).encode(), digest_size=4).digest(), "big")
