"""The heads of the messages that members exchange, as bytes and back.

Every head begins with one byte that names its kind. Numbers are little-endian. Text comes last, in UTF-8.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from duetlink.errors import RemoteProtocolError

MAX_HEAD_BYTES = 4096


class Kind(IntEnum):
    PIECE = 1
    ABORT = 2
    OFFER = 3
    GRANT = 4
    CONTENT = 5
    WITHDRAWAL = 6
    CALL = 7


class Cause(IntEnum):
    """The reason why an operation has ended without a result."""

    GIVEN_UP = 0  # a member was interrupted, ran out of time, or failed by itself
    MISMATCH = 1  # members called different operations
    LOST = 2  # a member is gone, where there is no membership to report it


_PIECE = struct.Struct("<BxxxIQ8s")
_ABORT = struct.Struct("<BBB")
_OFFER = struct.Struct("<BxxxIqQI")
_NUMBERED = struct.Struct("<BBxxI")


@dataclass(frozen=True, slots=True)
class Piece:
    """The head of a piece of an array. The first piece to each member carries the call as text."""

    sequence: int
    part: int
    digest: bytes
    call: str = ""

    def to_wire(self) -> bytes:
        return _PIECE.pack(Kind.PIECE, self.part, self.sequence, self.digest) + self.call.encode()

    @classmethod
    def from_wire(cls, head: bytes) -> Piece:
        _, part, sequence, digest = _unpacked(_PIECE, head)
        return cls(sequence, part, digest, _text(head[_PIECE.size :]))


@dataclass(frozen=True, slots=True)
class Called:
    """A notice: the sender has called this, and has been waiting for the receiver for a second."""

    sequence: int
    digest: bytes
    call: str

    def to_wire(self) -> bytes:
        return _PIECE.pack(Kind.CALL, 0, self.sequence, self.digest) + self.call.encode()

    @classmethod
    def from_wire(cls, head: bytes) -> Called:
        _, _, sequence, digest = _unpacked(_PIECE, head)
        return cls(sequence, digest, _text(head[_PIECE.size :]))


@dataclass(frozen=True, slots=True)
class Abort:
    """A notice: the running operation has no result at any member."""

    cause: Cause
    text: str
    rank: int = 0  # the lost member, for LOST

    def to_wire(self) -> bytes:
        return (
            _ABORT.pack(Kind.ABORT, self.cause, self.rank)
            + self.text.encode()[: MAX_HEAD_BYTES - _ABORT.size]
        )

    @classmethod
    def from_wire(cls, head: bytes) -> Abort:
        _, number, rank = _unpacked(_ABORT, head)
        cause = Cause(number) if number in (Cause.MISMATCH, Cause.LOST) else Cause.GIVEN_UP
        return cls(cause, _text(head[_ABORT.size :]), rank)


@dataclass(frozen=True, slots=True)
class Offer:
    """The announcement of a message to one member: its tag and size. A small message is in the body."""

    number: int
    tag: int
    size_bytes: int
    form_bytes: int  # the length of the form at the beginning, which describes the content

    def to_wire(self) -> bytes:
        return _OFFER.pack(Kind.OFFER, self.number, self.tag, self.size_bytes, self.form_bytes)

    @classmethod
    def from_wire(cls, head: bytes) -> Offer:
        _, number, tag, size_bytes, form_bytes = _unpacked(_OFFER, head)
        if form_bytes > size_bytes:
            raise RemoteProtocolError(f"a message of {size_bytes} bytes with {form_bytes} bytes of form")
        return cls(number, tag, size_bytes, form_bytes)


@dataclass(frozen=True, slots=True)
class Numbered:
    """A step that concerns one offer: GRANT requests its content, CONTENT carries some of it, WITHDRAWAL
    cancels it.
    """

    kind: Kind
    number: int
    refused: bool = False  # on a GRANT: the receiver does not want it

    def to_wire(self) -> bytes:
        return _NUMBERED.pack(self.kind, self.refused, self.number)

    @classmethod
    def from_wire(cls, head: bytes) -> Numbered:
        kind, refused, number = _unpacked(_NUMBERED, head)
        return cls(Kind(kind), number, bool(refused))


Frame = Piece | Called | Abort | Offer | Numbered


def parse(head: bytes) -> Frame:
    """Parse a head.

    Raises:
        RemoteProtocolError: it is malformed, of an unknown kind, or longer than 4,096 bytes.
    """
    if not head or len(head) > MAX_HEAD_BYTES:
        raise RemoteProtocolError(f"a head of {len(head)} bytes; 1 to {MAX_HEAD_BYTES} are allowed")
    match head[0]:
        case Kind.PIECE:
            return Piece.from_wire(head)
        case Kind.CALL:
            return Called.from_wire(head)
        case Kind.ABORT:
            return Abort.from_wire(head)
        case Kind.OFFER:
            return Offer.from_wire(head)
        case Kind.GRANT | Kind.CONTENT | Kind.WITHDRAWAL:
            return Numbered.from_wire(head)
    raise RemoteProtocolError(f"a message of kind {head[0]}, which this version does not know")


def _unpacked(form: struct.Struct, head: bytes) -> tuple[Any, ...]:
    if len(head) < form.size:
        raise RemoteProtocolError(f"a head of {len(head)} bytes, where {form.size} are the least")
    return form.unpack_from(head)


def _text(data: bytes) -> str:
    return "".join(c if c.isprintable() else "?" for c in data.decode("utf-8", "replace"))
