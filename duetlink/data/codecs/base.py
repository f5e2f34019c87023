"""The contract of a codec: an array becomes fewer bytes, and comes back.

A codec is one file with one class. `encode` and `decode` see the payload alone; `chunk.py` puts a header
around it that says what it is, and checks everything before a decoder runs. Instances hold no state: any
thread may use one, several at once.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from duetlink.data.codecs.element import Element
from duetlink.errors import DuetError

__all__ = [
    *(
        "BYTES",
        "GRADIENT",
        "LOSSLESS",
        "TENSOR",
        "VERSION",
        "Array",
        "Bound",
        "Codec",
        "Octets",
        "References",
    ),
    *("UnknownVersion", "VersionCodec", "array_bytes", "no_references"),
]

Octets: TypeAlias = bytes | bytearray | memoryview
Array: TypeAlias = NDArray[np.generic]
References: TypeAlias = Callable[[bytes], Array]  # by name; KeyError where there is none

BYTES, TENSOR, GRADIENT, VERSION = "bytes", "tensor", "gradient", "version"


@dataclass(frozen=True, slots=True)
class Bound:
    """How far a decoded value may be from the original, for every item x of a block:

    |decoded - x| <= relative * |x| + block * max |items of its block|.

    Both 0: lossless, bit for bit. Both infinite: no bound, as where items are left out.
    """

    relative: float = 0.0
    block: float = 0.0

    @property
    def lossless(self) -> bool:
        return self.relative == 0 == self.block

    def __str__(self) -> str:
        if not math.isfinite(self.relative + self.block):
            return "items may be left out"
        terms = []
        if self.relative:
            terms.append(f"{self.relative:.2g} of its value")
        if self.block:
            terms.append(f"{self.block:.2g} of the largest near it")
        return f"each item within {' and '.join(terms)}" if terms else "bit for bit"


LOSSLESS = Bound()


class Codec(ABC):
    """One way to encode. Arrays are C-contiguous, of `element.storage`; a byte string is a `uint8` array."""

    number: ClassVar[int]  # what a chunk carries; never used again for another codec
    name: ClassVar[str]
    # BYTES: any bytes; TENSOR: knows what its items are; GRADIENT: leaves items out; VERSION: a VersionCodec
    kind: ClassVar[str]
    levels: ClassVar[range] = range(1)  # from the quickest to the smallest
    level: ClassVar[int] = 0  # the default
    overhead_bytes: ClassVar[int] = 0  # about what it writes beside what grows with the array

    @property
    def lossless(self) -> bool:
        """Whether every array comes back bit for bit."""
        return True

    @property
    def ready(self) -> bool:
        """Whether it can be used without a wait: the tuner tries no other."""
        return True

    def load(self) -> None:  # noqa: B027 - most have nothing to load
        """Become `ready`, which may take a while; nothing where it is."""

    def accepts(self, element: Element) -> bool:
        """Whether arrays of these items can be encoded."""
        return True

    def suits(self, array: Array, element: Element) -> bool:
        """Whether a short look at the array, which the codec accepts, gives hope that it becomes smaller."""
        return True

    def bound(self, element: Element, level: int) -> Bound:
        """What is promised of each decoded item."""
        return LOSSLESS

    @abstractmethod
    def encode(self, array: Array, element: Element, level: int) -> Octets:
        """The payload. It may be larger than the array."""

    @abstractmethod
    def decode(self, payload: memoryview, element: Element, shape: tuple[int, ...]) -> Array:
        """The array of that element and shape: C-contiguous, writable or not. Nothing larger than the
        payload and the array together is allocated, whatever the payload says.

        Raises anything for a payload that `encode` did not make: it arrives as MalformedChunk.
        """


class UnknownVersion(DuetError, LookupError):
    """A chunk holds for a version of an array that is not here; it must be sent whole."""


class VersionCodec(Codec):
    """A codec whose payload is for a reader that has another version of the array.

    Its module has a function of its own to encode, which takes that version; `encode` here raises.
    """

    kind: ClassVar[str] = VERSION

    def decode(self, payload: memoryview, element: Element, shape: tuple[int, ...]) -> Array:
        return self.decode_version(payload, element, shape, no_references)

    @abstractmethod
    def decode_version(
        self, payload: memoryview, element: Element, shape: tuple[int, ...], references: References
    ) -> Array:
        """As `decode`. `references` finds a version by its name, or raises KeyError.

        Raises:
            UnknownVersion: there is none of that name.
            MalformedChunk: it has another size or element, or the payload is no encoder's.
        """


def no_references(name: bytes) -> Array:
    """Finds no version."""
    raise KeyError(name)


def array_bytes(element: Element, shape: tuple[int, ...]) -> int:
    """The size of an array in memory."""
    return math.prod(shape) * element.size_bytes
