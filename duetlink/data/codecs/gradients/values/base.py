"""The contract of a value codec: float32 values, in the order of their positions, as bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Values: TypeAlias = NDArray[np.float32]


class ValueCodec(ABC):
    """One way to write values. Instances hold no state. The payload does not say how many there are."""

    number: int  # what a payload carries; never used again for another codec
    name: str

    @abstractmethod
    def encode(self, values: Values, seed: int) -> bytes:
        """The payload. `seed` (64 bits) is that of any chance: equal seeds and values, equal payloads.

        Raises:
            CodecFailed: values that this codec cannot write.
        """

    @abstractmethod
    def decode(self, payload: memoryview, count: int) -> Values:
        """The `count` values; at most a few times that and the payload are allocated.

        Raises anything for a payload that `encode` did not make.
        """
