"""Index codecs, by name and by number: they write sorted positions in few bits."""

from __future__ import annotations

from duetlink.data.codecs.gradients.indices.base import IndexCodec
from duetlink.data.codecs.gradients.indices.bitmap import Bitmap
from duetlink.data.codecs.gradients.indices.gaps import GapRice, PcodecGaps
from duetlink.errors import LocalProtocolError, UnknownCodec

AUTO = "auto"

# Numbers 3 and 5 to 9 belong to codecs that only benchmarks use now.
_ALL: tuple[IndexCodec, ...] = (PcodecGaps(), GapRice(), Bitmap())
BY_NAME = {codec.name: codec for codec in _ALL}
_BY_NUMBER = {codec.number: codec for codec in _ALL}


def register(codec: IndexCodec) -> None:
    """Add an index codec to this process, chosen by name only; its number must never be reused."""
    BY_NAME[codec.name] = _BY_NUMBER[codec.number] = codec


def chosen(name: str, size: int, count: int) -> IndexCodec:
    """Return the codec of that name; for AUTO, the one of ours with the fewest predicted bits.

    Raises:
        LocalProtocolError: there is no codec of that name.
    """
    if name == AUTO:
        return min(_ALL, key=lambda codec: codec.predicted_bits(size, count))
    try:
        return BY_NAME[name]
    except KeyError:
        raise LocalProtocolError(f"no index codec {name!r}; there are {AUTO}, {', '.join(BY_NAME)}") from None


def by_number(number: int) -> IndexCodec:
    """Return the codec of that number, or raise UnknownCodec."""
    try:
        return _BY_NUMBER[number]
    except KeyError:
        raise UnknownCodec(f"the positions use index codec {number}, which is not installed here") from None
