"""The contract of an index codec: the positions of the items that are sent, as bytes.

The payload contains neither n nor the number of positions: its container has both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

Positions: TypeAlias = NDArray[np.int64]


class IndexCodec(ABC):
    """One way to write a set of positions. Instances hold no state."""

    number: ClassVar[int]  # written in payloads; never reused for another codec
    name: ClassVar[str]
    exact: ClassVar[bool] = True  # decoding returns exactly the encoded positions

    @abstractmethod
    def predicted_bits(self, size: int, count: int) -> float:
        """Return the expected size of the payload if all sets of `count` positions are equally likely."""

    @abstractmethod
    def encode(self, positions: Positions, size: int, seed: int) -> bytes:
        """Return the payload of sorted, unique positions below `size`; `seed` (64 bits) is for random
        choices."""

    @abstractmethod
    def decode(self, payload: memoryview, size: int, count: int) -> Positions:
        """Return the positions: sorted, unique, below `size`; `count` of them if the codec is exact.

        Allocates at most a few times `size` and the payload. May raise anything for a payload that `encode`
        did not make.
        """
