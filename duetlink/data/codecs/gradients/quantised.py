"""A lossy codec of tensors as a gradient compressor: every item is sent, in fewer bits."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from duetlink.data.codecs import chunk, registry
from duetlink.data.codecs.element import FLOAT32
from duetlink.data.codecs.gradients.compressor import ErrorFeedback, Float32Array, TensorState, derived_seed
from duetlink.data.codecs.lossy.stochastic import Stochastic
from duetlink.errors import LocalProtocolError


class Quantised(ErrorFeedback):
    """Any codec of float32, e.g. "qsgd", "natural", "block8", "block4", "bfloat16", with error feedback."""

    name: ClassVar[str] = "quantised"

    def __init__(self, codec: str, level: int | None = None, *, seed: int = 0) -> None:
        """Use the registered codec of that name, at `level` or its default; `seed` is for random codecs.

        Raises:
            UnknownCodec: it is not installed.
            LocalProtocolError: it does not accept float32.
        """
        super().__init__(seed=seed)
        self.codec = registry.named(codec)
        self.level = level
        if not self.codec.accepts(FLOAT32):
            raise LocalProtocolError(f"codec {codec} takes no float32")

    def _approximate(
        self, accumulated: Float32Array, name: str, state: TensorState
    ) -> tuple[bytes, Float32Array, dict[str, Float32Array]]:
        if isinstance(self.codec, Stochastic):
            data = self._by_seed(self.codec, accumulated, derived_seed(self.seed, name, state.step))
        else:
            data = chunk.encode(accumulated, self.codec, self.level)
        decoded, _ = chunk.decode(data)
        return data, decoded.view(np.float32), {}

    def _by_seed(self, codec: Stochastic, accumulated: Float32Array, seed: int) -> bytes:
        """Encode with a stochastic codec whose random numbers follow from the seed."""
        level = codec.level if self.level is None else self.level
        payload = codec.encode_by(np.random.Philox(seed), accumulated, FLOAT32, level)
        return chunk.frame(codec, FLOAT32, accumulated.shape, codec.bound(FLOAT32, level), payload)
