"""Values through a codec of tensors that rounds by chance: the seed chooses."""

from __future__ import annotations

import numpy as np

from duetlink.data.codecs.element import FLOAT32
from duetlink.data.codecs.gradients.values.base import ValueCodec, Values
from duetlink.data.codecs.lossy.stochastic import Stochastic


class StochasticValues(ValueCodec):
    """Any such codec, at its own level."""

    def __init__(self, number: int, name: str, codec: Stochastic) -> None:
        self.number, self.name, self._codec = number, name, codec

    def encode(self, values: Values, seed: int) -> bytes:
        return self._codec.encode_by(np.random.Philox(seed), values, FLOAT32, self._codec.level)

    def decode(self, payload: memoryview, count: int) -> Values:
        return self._codec.decode(payload, FLOAT32, (count,)).view(np.float32)
