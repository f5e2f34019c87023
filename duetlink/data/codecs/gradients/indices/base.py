"""The contract of an index codec: which of n items are sent, as bytes.

The payload says neither n nor how many there are: both stand where the payload stands.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

Positions: TypeAlias = NDArray[np.int64]


class IndexCodec(ABC):
    """One way to write a set of positions. Instances hold no state."""

    number: ClassVar[int]  # what a payload carries; never used again for another codec
    name: ClassVar[str]
    exact: ClassVar[bool] = True  # the positions that come back are those that were given

    @abstractmethod
    def predicted_bits(self, size: int, count: int) -> float:
        """Of the payload, if every set of `count` positions below `size` is as likely as any other."""

    @abstractmethod
    def encode(self, positions: Positions, size: int, seed: int) -> bytes:
        """The payload of sorted, unique positions below `size`. `seed` (64 bits) is that of any chance."""

    @abstractmethod
    def decode(self, payload: memoryview, size: int, count: int) -> Positions:
        """The positions: sorted, unique, below `size`; `count` of them, but for Bloom filters that send
        every positive. At most a few times `size` and the payload are allocated.

        Raises anything for a payload that `encode` did not make.
        """
