"""Which value codecs there are, by name and by number."""

from __future__ import annotations

from duetlink.codecs.gradients.values.base import ValueCodec
from duetlink.codecs.gradients.values.raw import RawValues
from duetlink.errors import LocalProtocolError, UnknownCodec

AUTO = "auto"
_AUTO = "raw"

_ALL: tuple[ValueCodec, ...] = (RawValues(),)
BY_NAME = {codec.name: codec for codec in _ALL}
_BY_NUMBER = {codec.number: codec for codec in _ALL}


def chosen(name: str) -> ValueCodec:
    """The codec of that name; AUTO is block8.

    Raises:
        LocalProtocolError: there is none of that name.
    """
    try:
        return BY_NAME[_AUTO if name == AUTO else name]
    except KeyError:
        raise LocalProtocolError(f"no value codec {name!r}; there are {AUTO}, {', '.join(BY_NAME)}") from None


def by_number(number: int) -> ValueCodec:
    """Raises UnknownCodec."""
    try:
        return _BY_NUMBER[number]
    except KeyError:
        raise UnknownCodec(f"values of value codec {number}, which is not there") from None
