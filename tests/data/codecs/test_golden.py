"""What was written once decodes for ever (tests/data/codecs/make_golden.py)."""

from __future__ import annotations

import numpy as np
import pytest
import xxhash

from duetlink.data.codecs import chunk
from duetlink.data.codecs.base import BYTES, TENSOR, Codec
from duetlink.data.codecs.registry import codecs, named

from .make_golden import FOLDER, REFERENCE, REFERENCE_NAME

OURS = [codec for codec in codecs() if codec.lossless and codec.kind in (BYTES, TENSOR)]

# XXH3-64 of what the lossy ones decode to
DECODED = {
    "float16": 0x35D13A125C79BA8D,
    "bfloat16": 0xD6B34D202BA02D24,
    "block8": 0x986EC9A92475749D,
    "block4": 0x2D27F5BA141E9486,
    "qsgd": 0x039A4FF4E01A66A6,
    "natural": 0xCC0B1B156A68DDA9,
    "sparse_gradient": 0x9DD347238A457EDB,
    "random_subset": 0x33913A25C8BBC0D7,
}


@pytest.mark.parametrize("codec", OURS, ids=lambda codec: codec.name)
def test_a_golden_file_decodes(codec: Codec) -> None:
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
    elif codec.name == "frame_of_reference":
        assert (array.dtype, array.shape) == (np.dtype(np.int64), (120, 4))
        assert array.tolist() == [[-40, 7, 1099511627776, 7], [9, -(2**63), 0, 2**63 - 1]] * 60
    elif codec.name == "decimals":
        assert (array.dtype, array.shape) == (np.dtype(np.float64), (605,))
        assert array[:3].tolist() == [-3.0, -2.99, -2.98]
        assert array[597:600].tolist() == [2.97, 2.98, 2.99]
        others = [0x8000_0000_0000_0000, 0x7FF8_0000_0000_BEEF, 0x3FD5_5555_5555_5555]
        assert array[600:603].view(np.uint64).tolist() == others
        assert array[603:].tolist() == [1e15, 0.125]
    elif codec.kind == BYTES:
        assert array.tobytes() == b"the same again, and " * 12 + bytes(range(40))
    else:
        assert (array.dtype, array.shape) == (np.dtype(np.float32), (10, 24))
        row = (0, 0x8000_0000, 1, 0x7F80_0000, 0x7FC0_0001, 0xFFC0_BEEF, 0x3F80_0000, 0x3FC0_0000) * 3
        assert array.view(np.uint32).tolist() == [list(row)] * 10


@pytest.mark.parametrize("name", DECODED)
def test_a_lossy_golden_file_decodes(name: str) -> None:
    data = (FOLDER / f"{name}.chunk").read_bytes()
    array, header = chunk.decode(data)
    assert (header.codec, array.dtype, array.shape) == (named(name).number, np.dtype(np.float32), (12, 20))
    assert xxhash.xxh3_64_intdigest(array.tobytes()) == DECODED[name]


def test_the_golden_factors_decode() -> None:
    array, _ = chunk.decode((FOLDER / "low_rank.chunk").read_bytes())
    # a product of matrices differs in the last bits between machines
    assert np.allclose(array, np.linspace(-2, 2, 240).reshape(12, 20), atol=1e-5)


def test_every_codec_has_a_golden_file() -> None:
    assert {codec.name for codec in codecs()} <= {path.stem for path in FOLDER.glob("*.chunk")}


def test_the_golden_delta_decodes() -> None:
    data = (FOLDER / "delta.chunk").read_bytes()
    array, header = chunk.decode(data, references={REFERENCE_NAME: REFERENCE}.__getitem__)
    assert (header.codec, len(data) < 4096) == (21, True)
    assert array.shape == (40, 6)
    assert array[0].tolist() == [1.0, 2.0, -3.5, 4.0, 0.0, 6.25]
    assert array[3].tolist() == [1.0, 2.0, -3.75, 4.0, 0.0, 6.25]
    assert array[39].tolist() == [8.0] * 6
