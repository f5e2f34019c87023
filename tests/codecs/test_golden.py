"""What was written once decodes for ever (tests/codecs/make_golden.py)."""

from __future__ import annotations

import numpy as np
import pytest

from duetlink.codecs import chunk
from duetlink.codecs.base import BYTES, TENSOR
from duetlink.codecs.registry import codecs

from .make_golden import FOLDER, REFERENCE, REFERENCE_NAME

OURS = [codec for codec in codecs() if codec.lossless and codec.kind in (BYTES, TENSOR)]


@pytest.mark.parametrize("codec", OURS, ids=lambda codec: codec.name)
def test_a_golden_file_decodes(codec) -> None:
    data = (FOLDER / f"{codec.name}.chunk").read_bytes()
    array, header = chunk.decode(data)
    assert (header.codec, len(data) < 4096) == (codec.number, True)
    if codec.name == "sparse":
        assert array.dtype == np.int64
        assert array.shape == (400,)
        assert {int(place): int(array[place]) for place in np.flatnonzero(array)} == {
            70: 7,
            371: -1,
            372: 9_000_000_000,
        }
    elif codec.kind == BYTES:
        assert array.tobytes() == b"the same again, and " * 12 + bytes(range(40))
    else:
        assert (array.dtype, array.shape) == (np.float32, (10, 24))
        row = (0, 0x8000_0000, 1, 0x7F80_0000, 0x7FC0_0001, 0xFFC0_BEEF, 0x3F80_0000, 0x3FC0_0000) * 3
        assert array.view(np.uint32).tolist() == [list(row)] * 10


def test_the_golden_delta_decodes() -> None:
    data = (FOLDER / "delta.chunk").read_bytes()
    array, header = chunk.decode(data, references={REFERENCE_NAME: REFERENCE}.__getitem__)
    assert (header.codec, len(data) < 4096) == (21, True)
    assert array.shape == (40, 6)
    assert array[0].tolist() == [1.0, 2.0, -3.5, 4.0, 0.0, 6.25]
    assert array[3].tolist() == [1.0, 2.0, -3.75, 4.0, 0.0, 6.25]
    assert array[39].tolist() == [8.0] * 6
