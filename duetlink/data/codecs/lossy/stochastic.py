"""Codecs that round by chance, so that the mean of what is decoded is the number."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from duetlink.data.codecs.base import Array, Codec
from duetlink.data.codecs.element import Element


class Stochastic(Codec):
    """`encode` draws from a stream that the system seeds; `encode_by` from the caller's."""

    def encode(self, array: Array, element: Element, level: int) -> bytes:
        return self.encode_by(np.random.Philox(), array, element, level)

    @abstractmethod
    def encode_by(self, chance: np.random.Philox, array: Array, element: Element, level: int) -> bytes:
        """As `encode`; equal streams and arrays give equal payloads."""
