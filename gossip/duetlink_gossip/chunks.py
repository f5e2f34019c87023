"""A model as datagrams, each of which is usable alone: a member that has lost some averages the rest.

Parameters are dealt out to the chunks like cards, so that a burst of lost datagrams takes a little of every
layer and no layer whole. Each chunk has its own scale, and names its round and its position.

    0      kind: DATA; ASK, which asks for lost chunks; or PARITY, see parity.py
    2-3    the number of the sender's neighbours in this round; of fragments, of receivers of each
    4-7    the epoch: the gossip that this belongs to
    8-11   digest of what all members must have alike: names and shapes, graph, seed, precision
    12-19  round
    20-23  the number of parameters of the model
    24-27  position: of a chunk, or of the group of a parity; 0 in an ASK
    28-31  scale: the value of an integer of 1
    32-35  mass: see averaging.py; of fragments the datagram's number in this round to this receiver
    36-37  how many chunks of the receiver's last round arrived here, and
    40-43  the seconds between two of them: the receiver sets its pace by these
    44-    the values, or a parity; in an ASK one bit for each chunk, 1 for a wanted one

All numbers are big-endian, except the values, which are little-endian.
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

Matrix = npt.NDArray[Any]  # one chunk in each row
Floats = npt.NDArray[np.float32]
Octets = npt.NDArray[np.uint8]

_HEAD = struct.Struct("!BxHIIQIIfIHxxf")
HEAD_BYTES = _HEAD.size

# dtype of a value, and the largest integer; 0 for floats, which need no scale
_PRECISIONS: dict[str, tuple[str, int]] = {
    "float32": ("<f4", 0),
    "int16": ("<i2", 32767),
    "int8": ("i1", 127),
}

MOST_CHUNKS = 65_535
_MOST_ROUND = 1 << 62


class ChunkHead(NamedTuple):
    """The head of a datagram."""

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
        """Raises RemoteProtocolError if it is malformed."""
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
    """The layout of a vector of `count` numbers in `chunks` chunks: chunk c has the numbers c, c + chunks, …

    The last number of some chunks is padding, so that all have one length.
    """

    count: int
    chunks: int

    @classmethod
    def fitting(cls, count: int, mtu_bytes: int, item_bytes: int) -> Strides:
        """Return the layout with the fewest chunks that fit datagrams of `mtu_bytes`.

        Raises:
            SettingError: there are no parameters, or too many for such small datagrams.
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
        """The number of values in a chunk."""
        return -(-self.count // self.chunks)

    def deal(self, vector: Floats) -> Floats:
        """Split a vector into chunks, shape (chunks, length); a copy."""
        padded = np.zeros(self.chunks * self.length, np.float32)
        padded[: self.count] = vector
        return np.ascontiguousarray(padded.reshape(self.length, self.chunks).T)

    def gather(self, chunks: Floats) -> Floats:
        """Join chunks into the vector; a copy."""
        return np.ascontiguousarray(chunks.T).reshape(-1)[: self.count]


class Encoded(NamedTuple):
    """All chunks of a model in the form in which they are sent."""

    scales: list[float]
    bodies: Octets  # a row for each chunk
    masses: list[int]


def item_bytes(precision: str) -> int:
    """Return the size of a value in bytes. Raises SettingError for an unknown precision."""
    if precision not in _PRECISIONS:
        raise SettingError(f"precision is {precision!r}: there are {', '.join(_PRECISIONS)}")
    return np.dtype(_PRECISIONS[precision][0]).itemsize


def encode(chunks: Floats, precision: str, rng: np.random.Generator) -> tuple[list[float], Octets]:
    """Return scales and bytes. Integers are rounded up or down at random, so that their mean is the value."""
    dtype, most = _PRECISIONS[precision]
    if not most:
        return [1.0] * len(chunks), chunks.astype(dtype).view(np.uint8)
    # divided by the float32 that is sent, not by a more exact one
    scales = (np.abs(chunks).max(axis=1) / most).astype(np.float32)
    divisors = np.where(scales > 0, scales, np.float32(1))[:, None]
    drawn = rng.random(chunks.shape, np.float32)
    rounded = np.clip(np.floor(chunks / divisors + drawn), -most, most)
    return scales.tolist(), rounded.astype(dtype).view(np.uint8)


def decode(body: memoryview, scale: float, length: int, precision: str) -> Floats:
    """Return the values of one chunk, float32. Raises RemoteProtocolError if they are malformed or not
    finite.
    """
    dtype, most = _PRECISIONS[precision]
    if len(body) != length * np.dtype(dtype).itemsize:
        raise RemoteProtocolError(f"a chunk of {len(body)} bytes, where {length} {precision} were due")
    values = np.frombuffer(body, dtype).astype(np.float32)
    if most:
        with np.errstate(over="ignore"):  # an overflow is refused below
            values *= np.float32(scale)
    if not np.isfinite(values).all():
        raise RemoteProtocolError("a chunk has values that are not finite: NaN or infinity")
    return values


def ask(head: ChunkHead, wanted: npt.NDArray[np.bool_]) -> bytes:
    """Make a datagram that asks for the wanted chunks."""
    return head.to_wire() + np.packbits(wanted).tobytes()


def asked(body: memoryview, chunks: int) -> list[int]:
    """Return the positions that an ASK wants. Raises RemoteProtocolError."""
    if len(body) != -(-chunks // 8):
        raise LimitExceeded(
            f"a request of {len(body)} bytes, where {-(-chunks // 8)} are needed for {chunks} chunks"
        )
    bits = np.unpackbits(np.frombuffer(body, np.uint8))
    if bits[chunks:].any():
        raise RemoteProtocolError(f"a request for chunks beyond the {chunks} of the model")
    return [int(position) for position in np.flatnonzero(bits)]


def form_of(*settings: Iterable[object] | object) -> int:
    """Return a digest of 32 bits of the settings that all members must have alike."""
    return int.from_bytes(hashlib.blake2b(repr(settings).encode(), digest_size=4).digest(), "big")
