"""Every lossless codec, through the contract that third parties run."""

from __future__ import annotations

from duetlink.codecs.base import BYTES, TENSOR
from duetlink.codecs.decimals import Decimals
from duetlink.codecs.frame_of_reference import FrameOfReference
from duetlink.codecs.lz4_ import Lz4
from duetlink.codecs.lzma_ import Lzma
from duetlink.codecs.pcodec_ import Pcodec
from duetlink.codecs.planes import Planes
from duetlink.codecs.raw import Raw
from duetlink.codecs.registry import codecs
from duetlink.codecs.sparse import Sparse
from duetlink.codecs.zlib_ import Zlib
from duetlink.codecs.zstd import Zstd
from duetlink.testing.codecs import CodecContract


class TestRaw(CodecContract):
    codec = Raw()


class TestZlib(CodecContract):
    codec = Zlib()


class TestLzma(CodecContract):
    codec = Lzma()


class TestZstd(CodecContract):
    codec = Zstd()


class TestLz4(CodecContract):
    codec = Lz4()


class TestPcodec(CodecContract):
    codec = Pcodec()


class TestPlanes(CodecContract):
    codec = Planes()


class TestFrameOfReference(CodecContract):
    codec = FrameOfReference()


class TestDecimals(CodecContract):
    codec = Decimals()


class TestSparse(CodecContract):
    codec = Sparse()


def test_every_lossless_codec_is_here() -> None:
    here = {value.codec.name for name, value in globals().items() if name.startswith("Test")}
    there = {codec.name for codec in codecs() if codec.lossless and codec.kind in (BYTES, TENSOR)}
    assert there - {"blosc2", "bitshuffle", "bytedelta"} == here  # those three: test_blosc2.py
