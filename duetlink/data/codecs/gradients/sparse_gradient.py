"""A gradient of which only some items are sent, as a chunk."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from duetlink.data.codecs.base import LOSSLESS, Array, Bound
from duetlink.data.codecs.element import Element
from duetlink.data.codecs.gradients.codec import GradientCodec
from duetlink.data.codecs.gradients.coding import decode_sparse, encode_sparse
from duetlink.data.codecs.lossy.blocks import Block8

VALUE_CODECS = ("lossless", "block8")


class SparseGradient(GradientCodec):
    """A payload of coding.py; items that are not sent decode to 0.

    `encode` sends every item that is not +0.0: losslessly at level 0, in 8-bit blocks at level 1. Compressors
    choose the items that they send, and state it in the bound.
    """

    number: ClassVar[int] = 48
    name: ClassVar[str] = "sparse_gradient"
    levels: ClassVar[range] = range(len(VALUE_CODECS))

    def bound(self, element: Element, level: int) -> Bound:
        return Block8().bound(element, 0) if level else LOSSLESS

    def encode(self, array: Array, element: Element, level: int) -> bytes:
        bits = array.reshape(-1).view(np.uint32)
        return encode_sparse(bits.view(np.float32), np.flatnonzero(bits), value=VALUE_CODECS[level]).payload

    def decode(self, payload: memoryview, element: Element, shape: tuple[int, ...]) -> Array:
        size = math.prod(shape)
        positions, values = decode_sparse(payload, size)
        array = np.zeros(size, np.float32)
        array[positions] = values
        return array.reshape(shape)
