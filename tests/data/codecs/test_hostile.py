"""All decoders under altered payloads: typed errors, and no more memory than was announced."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from pcodec import standalone

from duetlink.data.codecs import chunk, named
from duetlink.data.codecs.base import LOSSLESS, Array, Bound
from duetlink.data.codecs.element import FLOAT32, UINT8, Element
from duetlink.errors import LimitExceeded, MalformedChunk, UnknownCodec

from .fuzz_chunk import fuzz

# In a process of its own, so that what libraries allocate is seen, and no crash goes unnoticed.
PROGRAM = """
import resource
import numpy as np
from duetlink.data.codecs.element import ELEMENTS
from duetlink.testing.codecs import samples
from tests.data.codecs.fuzz_chunk import CODECS, one

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

random = np.random.default_rng(11)
cases = []
for codec in CODECS:
    for element in ELEMENTS:
        if codec.accepts(element):
            for name in ("few", "noise", "zeros"):
                array = samples(element)[name]
                cases.append((codec, element, array.size, bytes(codec.encode(array, element, codec.level))))
for case in cases:
    one(case)
before = peak()
for codec, element, items, payload in cases:
    for _ in range(12):
        broken = bytearray(payload)
        for position in random.integers(0, min(len(broken), 64) if random.random() < 0.7 else len(broken), 3):
            broken[position] = random.integers(256)
        one((codec, element, items, bytes(broken)))
print(peak() - before)
"""


def test_altered_payloads_are_refused_or_harmless() -> None:
    fuzz(300)


@pytest.mark.skipif(sys.platform != "linux", reason="what ru_maxrss means differs")
def test_libraries_allocate_no_more_than_was_announced() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=100
    )
    assert int(done.stdout) < 16  # MiB, for arrays of 16 KiB


@pytest.mark.parametrize("name", ["zlib", "lzma", "zstd", "lz4"])
def test_more_than_was_announced_is_not_made(name: str) -> None:
    bomb = bytes(named(name).encode(np.zeros(1 << 26, np.uint8), UINT8, named(name).level))
    with pytest.raises(MalformedChunk):
        chunk.decode(chunk.frame(named(name), UINT8, (1000,), LOSSLESS, bomb))


def test_a_number_beyond_the_limit_is_refused_by_the_header_alone() -> None:
    for shape in ((1 << 40, 1), (1 << 20, 1 << 30), (2**64 - 1,) * 64, (0, 1 << 41)):
        data = chunk.frame(named("zstd"), FLOAT32, shape, LOSSLESS, b"")
        with pytest.raises(LimitExceeded):
            chunk.read_header(memoryview(data))


def test_a_lossy_chunk_of_a_lossless_codec_is_refused() -> None:
    data = chunk.frame(named("raw"), UINT8, (3,), Bound(relative=0.5), b"abc")
    with pytest.raises(MalformedChunk, match="does not make such"):
        chunk.decode(data)


def test_a_codec_that_is_not_here_is_named_by_its_number() -> None:
    strange = type("Strange", (type(named("raw")),), {"number": 0x7FFF, "name": "strange"})()
    with pytest.raises(UnknownCodec, match="32767"):
        chunk.decode(chunk.encode(np.ones(3), strange))


def test_a_failed_check_in_rust_is_a_malformed_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        pass

    def give_up(*arguments: object) -> None:
        raise PanicException("index out of bounds")

    data = chunk.encode(np.ones(3), named("pcodec"))
    monkeypatch.setattr(standalone, "simple_decompress_into", give_up)
    with pytest.raises(MalformedChunk, match="gave up"):
        chunk.decode(data)


def test_a_broken_codec_does_not_pass_the_contract() -> None:
    from duetlink.data.codecs.raw import Raw
    from duetlink.testing.codecs import CodecContract

    class Forgetful(Raw):
        def decode(self, payload: memoryview, element: Element, shape: tuple[int, ...]) -> Array:
            return (
                np.abs(super().decode(payload, element, shape))
                if element.is_float
                else super().decode(payload, element, shape)
            )

    class Contract(CodecContract):
        codec = Forgetful()

    with pytest.raises(AssertionError):
        Contract().test_every_array_comes_back_bit_for_bit()
