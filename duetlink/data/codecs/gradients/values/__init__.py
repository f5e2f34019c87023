"""Value codecs, by name and by number: they write the values at chosen positions in few bits."""

from __future__ import annotations

from duetlink.data.codecs.gradients.values.base import ValueCodec
from duetlink.data.codecs.gradients.values.tensor import RawValues, StochasticValues, TensorValues
from duetlink.data.codecs.lossy.blocks import Block4, Block8
from duetlink.data.codecs.lossy.narrow import Bfloat16, Float16
from duetlink.data.codecs.lossy.natural import Natural
from duetlink.data.codecs.lossy.qsgd import Qsgd
from duetlink.data.codecs.pcodec_ import Pcodec
from duetlink.errors import LocalProtocolError, UnknownCodec

AUTO = "auto"
_AUTO = "block8"

# Numbers 8 and 9 belong to codecs that only benchmarks use now.
_ALL: tuple[ValueCodec, ...] = (
    RawValues(),
    TensorValues(1, "lossless", Pcodec()),
    TensorValues(2, Bfloat16.name, Bfloat16()),
    TensorValues(3, Block8.name, Block8()),
    TensorValues(4, Block4.name, Block4()),
    StochasticValues(5, Qsgd.name, Qsgd()),
    StochasticValues(6, Natural.name, Natural()),
    TensorValues(7, Float16.name, Float16()),
)
BY_NAME = {codec.name: codec for codec in _ALL}
_BY_NUMBER = {codec.number: codec for codec in _ALL}


def register(codec: ValueCodec) -> None:
    """Add a value codec to this process; its number must never be reused."""
    BY_NAME[codec.name] = _BY_NUMBER[codec.number] = codec


def chosen(name: str) -> ValueCodec:
    """Return the codec of that name; AUTO is 8-bit blocks.

    Raises:
        LocalProtocolError: there is no codec of that name.
    """
    try:
        return BY_NAME[_AUTO if name == AUTO else name]
    except KeyError:
        raise LocalProtocolError(f"no value codec {name!r}; there are {AUTO}, {', '.join(BY_NAME)}") from None


def by_number(number: int) -> ValueCodec:
    """Return the codec of that number, or raise UnknownCodec."""
    try:
        return _BY_NUMBER[number]
    except KeyError:
        raise UnknownCodec(f"the values use value codec {number}, which is not installed here") from None
