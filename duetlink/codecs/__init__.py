"""The public names of `duetlink.data.codecs`, which is where they are: arrays and bytes to fewer bytes.

import duetlink.codecs as codecs

small = codecs.compress(b"..." * 1000, codec="zstd", level=3)
codecs.decompress(small)
"""

from duetlink.data.codecs import (
    Bound,
    Codec,
    Compressor,
    Decompressor,
    Element,
    codecs,
    compress,
    decode,
    decompress,
    element_of,
    encode,
    named,
    read_header,
    register,
)

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
