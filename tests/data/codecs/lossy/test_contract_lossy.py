"""Every lossy tensor codec, through the contract that third parties run."""

from __future__ import annotations

from duetlink.data.codecs.lossy.blocks import Block4, Block8
from duetlink.data.codecs.lossy.narrow import Bfloat16, Float16
from duetlink.data.codecs.lossy.natural import Natural
from duetlink.data.codecs.lossy.qsgd import Qsgd
from duetlink.testing.codecs import CodecContract


class TestFloat16(CodecContract):
    codec = Float16()


class TestBfloat16(CodecContract):
    codec = Bfloat16()


class TestBlock8(CodecContract):
    codec = Block8()


class TestBlock4(CodecContract):
    codec = Block4()


class TestQsgd(CodecContract):
    codec = Qsgd()


class TestNatural(CodecContract):
    codec = Natural()
