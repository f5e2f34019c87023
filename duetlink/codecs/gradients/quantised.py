"""A lossy codec of tensors as a gradient compressor: every item is sent, in fewer bits."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from duetlink.codecs import chunk, registry
from duetlink.codecs.element import FLOAT32
from duetlink.codecs.gradients.compressor import ErrorFeedback, Float32Array, TensorState
from duetlink.errors import LocalProtocolError


class Quantised(ErrorFeedback):
    """Any codec of float32, e.g. "qsgd", "natural", "block8", "block4", "bfloat16", with error feedback."""

    name: ClassVar[str] = "quantised"

    def __init__(self, codec: str, level: int | None = None) -> None:
        """`codec`: its name in the registry. `level`: its own default where none is given.

        Raises:
            UnknownCodec: it is not installed.
            LocalProtocolError: it takes no float32.
        """
        super().__init__()
        self.codec = registry.named(codec)
        self.level = level
        if not self.codec.accepts(FLOAT32):
            raise LocalProtocolError(f"codec {codec} takes no float32")

    def _approximate(
        self, accumulated: Float32Array, name: str, state: TensorState
    ) -> tuple[bytes, Float32Array, dict[str, Float32Array]]:
        data = chunk.encode(accumulated, self.codec, self.level)
        decoded, _ = chunk.decode(data)
        return data, decoded.view(np.float32), {}
