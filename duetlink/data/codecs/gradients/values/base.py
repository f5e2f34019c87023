"""The contract of a value codec: float32 values, in the order of their positions, as bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Values: TypeAlias = NDArray[np.float32]


class ValueCodec(ABC):
    """One way to write values. Instances hold no state. The payload does not contain their number."""

    number: int  # written in payloads; never reused for another codec
    name: str

    @abstractmethod
    def encode(self, values: Values, seed: int) -> bytes:
        """Return the payload. `seed` (64 bits) seeds random choices: equal seeds and values, equal payloads.

        Raises:
            CodecFailed: this codec cannot write these values.
        """

    @abstractmethod
    def decode(self, payload: memoryview, count: int) -> Values:
        """Return the `count` values; allocates at most a few times their size and the payload's.

        May raise anything for a payload that `encode` did not make.
        """
