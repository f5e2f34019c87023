"""Arrays and bytes to fewer bytes: one contract, one registry, one file per codec.

    import duetlink.codecs as codecs

    small = codecs.compress(b"..." * 1000, codec="zstd", level=3)
    codecs.decompress(small)

`compress`, `decompress`, `Compressor` and `Decompressor` have the shape of the standard library's compression
modules (stream.py); arrays are encoded and decoded by `chunk.encode` and `chunk.decode`. No I/O, no clock.
"""

from duetlink.data.codecs.base import Bound, Codec
from duetlink.data.codecs.chunk import decode, encode, read_header
from duetlink.data.codecs.element import Element, element_of
from duetlink.data.codecs.registry import codecs, named, register
from duetlink.data.codecs.stream import Compressor, Decompressor, compress, decompress

__all__ = [
    "Bound",
    "Codec",
    "Compressor",
    "Decompressor",
    "Element",
    "codecs",
    "compress",
    "decode",
    "decompress",
    "element_of",
    "encode",
    "named",
    "read_header",
    "register",
]
