"""Codecs that round at random, so that the expected value of the decoded number is the number itself."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from duetlink.data.codecs.base import Array, Codec
from duetlink.data.codecs.element import Element


class Stochastic(Codec):
    """`encode` draws from a random stream that the system seeds; `encode_by` from the caller's stream."""

    def encode(self, array: Array, element: Element, level: int) -> bytes:
        return self.encode_by(np.random.Philox(), array, element, level)

    @abstractmethod
    def encode_by(self, chance: np.random.Philox, array: Array, element: Element, level: int) -> bytes:
        """Encode with random numbers of `chance`; equal streams and arrays give equal payloads."""
