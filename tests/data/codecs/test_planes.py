"""Planes: exponents apart from mantissas; an entropy coder for what is skewed, nothing for what is not."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from duetlink.data.codecs import chunk
from duetlink.data.codecs.base import LOSSLESS
from duetlink.data.codecs.element import BFLOAT16, BY_NAME, FLOAT32, Element
from duetlink.data.codecs.planes import Planes
from duetlink.errors import MalformedChunk

PLANES = Planes()
WEIGHTS = np.random.default_rng(1).normal(0, 0.02, 1 << 17).astype(np.float32)


def test_the_topmost_plane_holds_the_exponents_and_the_lowest_bit_the_sign() -> None:
    payload = PLANES.encode(np.array([1.0, -1.0, 2.0, -0.5, 1.5], np.float32), FLOAT32, 1)
    assert struct.unpack_from("<4Q", payload) == (5, 5, 5, 5)  # too few to be made smaller
    low, _, high, exponents = (list(payload[start : start + 5]) for start in range(32, 52, 5))
    assert exponents == [127, 127, 128, 126, 127]
    assert low == [0, 1, 0, 1, 0]
    assert high == [0, 0, 0, 0, 0x80]


def test_integers_are_split_as_they_are() -> None:
    payload = PLANES.encode(np.array([0x1234, 0xFFFE], np.uint16), BY_NAME["uint16"], 1)
    assert bytes(payload) == struct.pack("<2Q", 2, 2) + bytes([0x34, 0xFE, 0x12, 0xFF])


@pytest.mark.parametrize(("element", "ratio"), [(FLOAT32, 1.19), (BFLOAT16, 1.46)])
def test_dense_weights(element: Element, ratio: float) -> None:
    array = WEIGHTS if element is FLOAT32 else (WEIGHTS.view(np.uint32) >> 16).astype(np.uint16)
    assert array.nbytes / len(chunk.encode(array, PLANES, element=element)) >= ratio


def test_mantissas_are_stored_as_they_are() -> None:
    payload = PLANES.encode(WEIGHTS, FLOAT32, 1)
    sizes = struct.unpack_from("<4Q", payload)
    assert sizes[:3] == (WEIGHTS.size,) * 3
    assert sizes[3] < 0.35 * WEIGHTS.size


def test_sizes_that_do_not_add_up_are_refused() -> None:
    for sizes in ((10, 10, 10, 9), (2**64 - 1, 1, 20, 20), (10, 10, 10, 11), (0, 0, 0, 40)):
        payload = struct.pack("<4Q", *sizes) + bytes(40)
        with pytest.raises(MalformedChunk):
            chunk.decode(chunk.frame(PLANES, FLOAT32, (10,), LOSSLESS, payload))
