"""Values as plain float32, or through a codec of tensors."""

from __future__ import annotations

import numpy as np

from duetlink.data.codecs.base import Codec
from duetlink.data.codecs.element import FLOAT32
from duetlink.data.codecs.gradients.values.base import ValueCodec, Values
from duetlink.data.codecs.lossy.stochastic import Stochastic


class RawValues(ValueCodec):
    """Four bytes per value."""

    number = 0
    name = "raw"

    def encode(self, values: Values, seed: int) -> bytes:
        return values.tobytes()

    def decode(self, payload: memoryview, count: int) -> Values:
        return np.frombuffer(payload, np.float32)


class TensorValues(ValueCodec):
    """Any codec that accepts float32, at its default level."""

    def __init__(self, number: int, name: str, codec: Codec) -> None:
        self.number, self.name, self._codec = number, name, codec

    def encode(self, values: Values, seed: int) -> bytes:
        return bytes(self._codec.encode(values, FLOAT32, self._codec.level))

    def decode(self, payload: memoryview, count: int) -> Values:
        return self._codec.decode(payload, FLOAT32, (count,)).view(np.float32)


class StochasticValues(ValueCodec):
    """Any stochastic codec, at its default level."""

    def __init__(self, number: int, name: str, codec: Stochastic) -> None:
        self.number, self.name, self._codec = number, name, codec

    def encode(self, values: Values, seed: int) -> bytes:
        return self._codec.encode_by(np.random.Philox(seed), values, FLOAT32, self._codec.level)

    def decode(self, payload: memoryview, count: int) -> Values:
        return self._codec.decode(payload, FLOAT32, (count,)).view(np.float32)
