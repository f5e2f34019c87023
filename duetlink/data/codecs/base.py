"""The contract of a codec, which encodes an array in fewer bytes and decodes it.

A codec is one file with one class. `encode` and `decode` see the payload alone; `chunk.py` adds a header that
describes it, and checks everything before a decoder runs. Instances hold no state: several threads may use
one at once.
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
References: TypeAlias = Callable[[bytes], Array]  # finds a version by its name, or raises KeyError

BYTES, TENSOR, GRADIENT, VERSION = "bytes", "tensor", "gradient", "version"


@dataclass(frozen=True, slots=True)
class Bound:
    """The largest difference between a decoded item and the original x:

        |decoded - x| <= relative * |x| + block * max |items of its block|.

    Both 0: lossless, bit for bit. Both infinite: no bound, because items are left out.
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

    number: ClassVar[int]  # written in chunks; never reused for another codec
    name: ClassVar[str]
    # BYTES: any bytes; TENSOR: knows what its items are; GRADIENT: leaves items out; VERSION: a VersionCodec
    kind: ClassVar[str]
    levels: ClassVar[range] = range(1)  # from the quickest to the smallest
    level: ClassVar[int] = 0  # the default
    overhead_bytes: ClassVar[int] = 0  # approximate fixed size of a payload

    @property
    def lossless(self) -> bool:
        """True if every array comes back bit for bit."""
        return True

    @property
    def ready(self) -> bool:
        """True if the codec can be used without waiting for its library; the tuner only tries such codecs."""
        return True

    def load(self) -> None:  # noqa: B027 - most have nothing to load
        """Load the library, so that the codec is `ready`. May take a while."""

    def accepts(self, element: Element) -> bool:
        """Return True if arrays of these items can be encoded."""
        return True

    def suits(self, array: Array, element: Element) -> bool:
        """Inspect a few items; return True if the array, which the codec accepts, may become smaller."""
        return True

    def bound(self, element: Element, level: int) -> Bound:
        """Return the error bound that holds for each decoded item."""
        return LOSSLESS

    @abstractmethod
    def encode(self, array: Array, element: Element, level: int) -> Octets:
        """Return the payload, which may be larger than the array."""

    @abstractmethod
    def decode(self, payload: memoryview, element: Element, shape: tuple[int, ...]) -> Array:
        """Return the array of that element and shape: C-contiguous, writable or not.

        Allocates nothing larger than the payload and the array together, even for a malicious payload. May
        raise anything for a payload that `encode` did not make: the caller raises it as MalformedChunk.
        """


class UnknownVersion(DuetError, LookupError):
    """The chunk encodes a difference from a version that this side lacks; it must be sent whole."""


class VersionCodec(Codec):
    """A codec whose payload is a difference from a version of the array that the reader has.

    Its module has its own function to encode, which takes that version; `encode` here raises.
    """

    kind: ClassVar[str] = VERSION

    def decode(self, payload: memoryview, element: Element, shape: tuple[int, ...]) -> Array:
        return self.decode_version(payload, element, shape, no_references)

    @abstractmethod
    def decode_version(
        self, payload: memoryview, element: Element, shape: tuple[int, ...], references: References
    ) -> Array:
        """Decode as `decode` does. `references` finds a version by its name, or raises KeyError.

        Raises:
            UnknownVersion: there is no version of that name.
            MalformedChunk: the version has another size or element, or the payload is malformed.
        """


def no_references(name: bytes) -> Array:
    """Raise KeyError: a reader without any versions."""
    raise KeyError(name)


def array_bytes(element: Element, shape: tuple[int, ...]) -> int:
    return math.prod(shape) * element.size_bytes
