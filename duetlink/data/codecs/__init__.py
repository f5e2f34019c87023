"""Encode arrays and bytes in fewer bytes: one contract, one registry, one file per codec.

The nouns:

    codec      one way to encode an array, lossless or with a stated error bound (`base.py`)
    level      a codec's setting, from the quickest to the smallest result
    element    the type of the items, such as float32 or bfloat16 (`element.py`)
    payload    the bytes that a codec makes; it does not say what it is
    chunk      a header that describes the array and its codec, and the payload (`chunk.py`)
    bound      how far a decoded item may be from the original; 0 for lossless codecs
    plane      the bytes of one rank of all items, such as all exponent bytes (`planes.py`)
    stream     a byte string as a series of chunks of up to 1 MiB (`stream.py`)

Example:

    import duetlink.codecs as codecs

    small = codecs.compress(b"..." * 1000, codec="zstd", level=3)    # a stream: one chunk and an empty one
    codecs.decompress(small)                                         # the 3,000 bytes

    chunk = codecs.encode(numpy.zeros(1000, "float32"), codecs.named("sparse"))
    array, header = codecs.decode(chunk)                             # header.shape == (1000,)

`compress`, `decompress`, `Compressor` and `Decompressor` have the interface of the standard library's
compression modules. No I/O, no clock.
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
