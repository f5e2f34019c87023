"""Every lossless codec, through the contract that third parties run."""

from __future__ import annotations

from duetlink.data.codecs.base import BYTES, TENSOR
from duetlink.data.codecs.decimals import Decimals
from duetlink.data.codecs.frame_of_reference import FrameOfReference
from duetlink.data.codecs.lz4_ import Lz4
from duetlink.data.codecs.lzma_ import Lzma
from duetlink.data.codecs.pcodec_ import Pcodec
from duetlink.data.codecs.planes import Planes
from duetlink.data.codecs.raw import Raw
from duetlink.data.codecs.registry import codecs
from duetlink.data.codecs.sparse import Sparse
from duetlink.data.codecs.zlib_ import Zlib
from duetlink.data.codecs.zstd import Zstd
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
