"""A level reaches the library: it is not an ornament."""

from __future__ import annotations

import lzma
import zlib

import lz4.block
import numpy as np
import pytest
import zstandard
from pcodec import ChunkConfig, standalone

from duetlink.data.codecs import chunk, delta, element_of, named
from duetlink.data.codecs.base import BYTES, TENSOR, Codec
from duetlink.data.codecs.registry import codecs

_random = np.random.default_rng(3)
WORDS = [bytes(_random.integers(97, 123, size)) for size in _random.integers(2, 9, 400)]
TEXT = b" ".join(WORDS[index] for index in _random.zipf(1.3, 12_000) % 400)
BYTES_ARRAY = np.frombuffer(TEXT, np.uint8)
WALK = np.cumsum(_random.integers(-3, 4, 20_000))
NUMBERS = np.round(_random.normal(50, 20, 20_000), 2)


def payload(name: str, array: np.ndarray, level: int) -> bytes:
    return bytes(named(name).encode(array, element_of(array), level))


def test_zlib() -> None:
    for level in range(1, 10):
        assert payload("zlib", BYTES_ARRAY, level) == zlib.compress(TEXT, level)


def test_lzma() -> None:
    dictionaries = [1 << bits for bits in (18, 20, 21, 22, 22, 23, 23, 24, 25, 26)]
    for level in range(10):
        size = min(dictionaries[level], len(TEXT))
        filters = [{"id": lzma.FILTER_LZMA2, "preset": level, "dict_size": size}]
        assert payload("lzma", BYTES_ARRAY, level) == lzma.compress(TEXT, lzma.FORMAT_RAW, filters=filters)


def test_zstd() -> None:
    for level in range(1, 20):
        assert payload("zstd", BYTES_ARRAY, level) == zstandard.compress(TEXT, level)


def test_lz4() -> None:
    assert payload("lz4", BYTES_ARRAY, 1) == lz4.block.compress(TEXT, store_size=False)
    for level in range(2, 13):
        assert payload("lz4", BYTES_ARRAY, level) == lz4.block.compress(
            TEXT, mode="high_compression", compression=level, store_size=False
        )


def test_pcodec() -> None:
    for level in range(13):
        config = ChunkConfig(compression_level=level, enable_8_bit=True)
        assert payload("pcodec", NUMBERS, level) == standalone.simple_compress(NUMBERS, config)


@pytest.mark.parametrize("name", ["blosc2", "bitshuffle", "bytedelta"])
def test_blosc2(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    blosc2 = pytest.importorskip("blosc2")
    seen = []
    real = blosc2.compress2

    def compress2(source: object, **arguments: object) -> bytes:
        seen.append((arguments["clevel"], arguments["typesize"], arguments["nthreads"]))
        made: bytes = real(source, **arguments)
        return made

    monkeypatch.setattr(blosc2, "compress2", compress2)
    for level in range(1, 10):
        payload(name, NUMBERS, level)
    assert seen == [(level, 8, 1) for level in range(1, 10)]


@pytest.mark.parametrize(
    "codec",
    [
        codec
        for codec in codecs()
        if codec.kind in (BYTES, TENSOR) and codec.lossless and len(codec.levels) > 1
    ],
    ids=lambda codec: codec.name,
)
def test_the_last_level_makes_less_than_the_first(codec: Codec) -> None:
    array = BYTES_ARRAY if codec.kind == BYTES else WALK
    first, last = (len(codec.encode(array, element_of(array), codec.levels[end])) for end in (0, -1))
    assert last < 0.99 * first


def test_a_delta_takes_a_level() -> None:
    old = np.zeros_like(WALK)
    first, last = (len(delta.encode(WALK, element_of(WALK), old, bytes(16), level)) for level in (0, 12))
    assert last < 0.99 * first


def test_a_chunk_takes_the_default_level_of_its_codec() -> None:
    codec = named("zstd")
    assert chunk.encode(BYTES_ARRAY, codec) == chunk.encode(BYTES_ARRAY, codec, 1)
