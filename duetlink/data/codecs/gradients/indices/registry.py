"""Which index codecs there are, by name and by number, and which is predicted to be the smallest."""

from __future__ import annotations

from duetlink.data.codecs.gradients.indices.base import IndexCodec
from duetlink.data.codecs.gradients.indices.bitmap import Bitmap
from duetlink.data.codecs.gradients.indices.bloom_p0 import BloomP0
from duetlink.data.codecs.gradients.indices.bloom_p1 import BloomP1
from duetlink.data.codecs.gradients.indices.bloom_p2 import BloomP2
from duetlink.data.codecs.gradients.indices.elias_fano import EliasFano
from duetlink.data.codecs.gradients.indices.gap_rice import GapRice
from duetlink.data.codecs.gradients.indices.huffman import Huffman
from duetlink.data.codecs.gradients.indices.pcodec_gaps import PcodecGaps
from duetlink.data.codecs.gradients.indices.run_length import RunLength
from duetlink.errors import LocalProtocolError, UnknownCodec

AUTO = "auto"

_ALL: tuple[IndexCodec, ...] = (
    PcodecGaps(),
    GapRice(),
    EliasFano(),
    Bitmap(),
    RunLength(),
    Huffman(),
    BloomP0(),
    BloomP1(),
    BloomP2(),
)
BY_NAME = {codec.name: codec for codec in _ALL}
_BY_NUMBER = {codec.number: codec for codec in _ALL}


def chosen(name: str, size: int, count: int) -> IndexCodec:
    """The codec of that name; for AUTO, the exact one of fewest predicted bits.

    Raises:
        LocalProtocolError: there is none of that name.
    """
    if name == AUTO:
        exact = [codec for codec in _ALL if codec.exact]
        return min(exact, key=lambda codec: codec.predicted_bits(size, count))
    try:
        return BY_NAME[name]
    except KeyError:
        raise LocalProtocolError(f"no index codec {name!r}; there are {AUTO}, {', '.join(BY_NAME)}") from None


def by_number(number: int) -> IndexCodec:
    """Raises UnknownCodec."""
    try:
        return _BY_NUMBER[number]
    except KeyError:
        raise UnknownCodec(f"positions of index codec {number}, which is not there") from None
