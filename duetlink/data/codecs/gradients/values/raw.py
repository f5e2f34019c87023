"""Values as they are."""

from __future__ import annotations

import numpy as np

from duetlink.data.codecs.gradients.values.base import ValueCodec, Values


class RawValues(ValueCodec):
    """Four bytes each."""

    number = 0
    name = "raw"

    def encode(self, values: Values, seed: int) -> bytes:
        return values.tobytes()

    def decode(self, payload: memoryview, count: int) -> Values:
        return np.frombuffer(payload, np.float32)
