"""A sparse gradient as a chunk, through the contract of all codecs."""

from __future__ import annotations

import numpy as np

from duetlink.data.codecs import chunk
from duetlink.data.codecs.gradients.sparse_gradient import SparseGradient
from duetlink.testing.codecs import CodecContract


class TestSparseGradient(CodecContract):
    codec = SparseGradient()


def test_at_level_0_every_bit_comes_back() -> None:
    words = [0, 1, 0x80000000, 0x7FC00123, 0xFF800000, 0, 0x3F800000]
    array = np.array(words, np.uint32).view(np.float32)
    data = chunk.encode(array, SparseGradient(), 0)
    back, header = chunk.decode(data, codecs=lambda number: SparseGradient())
    assert back.view(np.uint32).tolist() == words
    assert header.bound.lossless


def test_at_level_1_zeros_stay_zeros_and_others_are_near() -> None:
    array = np.zeros((40, 50), np.float32)
    array[::4, 7] = np.linspace(-1, 1, 10)
    data = chunk.encode(array, SparseGradient(), 1)
    back, header = chunk.decode(data, codecs=lambda number: SparseGradient())
    assert ((back == 0) == (array == 0)).all()
    assert 0 < np.abs(back - array).max() <= header.bound.block
    assert header.bound.block < 1 / 250
