"""The codecs on Blosc2, where it is installed; and that its library never sees a header made by others."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("blosc2")

from duetlink.data.codecs import chunk, element_of
from duetlink.data.codecs.blosc2_ import Blosc2, Blosc2Bitshuffle, Blosc2Bytedelta, Blosc2Codec
from duetlink.errors import MalformedChunk
from duetlink.testing.codecs import CodecContract


class TestBlosc2(CodecContract):
    codec = Blosc2()


class TestBitshuffle(CodecContract):
    codec = Blosc2Bitshuffle()


class TestBytedelta(CodecContract):
    codec = Blosc2Bytedelta()


@pytest.mark.parametrize(
    "codec", [Blosc2(), Blosc2Bitshuffle(), Blosc2Bytedelta()], ids=lambda codec: codec.name
)
@pytest.mark.parametrize(
    ("position", "value"),
    [
        (0, 6),  # a later version
        (2, 0xE5),  # a codec from a plugin
        (3, 1),  # items of another size
        (4, 0xFF),  # more than the array
        (8, 0),  # blocks of another size, with the next: none
        (12, 0),  # less than the payload
        (16, 200),  # a filter from a plugin
        (22, 0xF7),  # a codec from a plugin
        (25, 3),  # a parameter of a filter
        (30, 1),
        (31, 0x40),  # memory as it was
        (31, 0x08),  # data that lies in a file
    ],
)
def test_a_header_of_others_is_refused(codec: Blosc2Codec, position: int, value: int) -> None:
    array = np.repeat(np.arange(300.0), 3)
    payload = bytearray(codec.encode(array, element_of(array), 5))
    assert payload[position] != value
    payload[position] = value
    if position == 8:
        payload[9:12] = bytes(3)
    hostile = chunk.frame(codec, element_of(array), array.shape, codec.bound(element_of(array), 5), payload)
    with pytest.raises(MalformedChunk, match="header"):
        chunk.decode(hostile)
