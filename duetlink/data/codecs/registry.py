"""The installed codecs, by name and by number.

Ours are in the table below. Another package adds its own through the entry point group `duetlink.codecs`,
each entry naming a `Codec` class. Numbers are never reused; those from 0x8000 on are free for others. A codec
whose library is not installed is missing here, and the peer learns which codecs this side has.
"""

from __future__ import annotations

import functools
import importlib
import logging

from duetlink.data.codecs.base import Codec
from duetlink.errors import LocalProtocolError, UnknownCodec
from duetlink.extensions import entry_points

ENTRY_POINTS = "duetlink.codecs"
FIRST_FREE_NUMBER = 0x8000

_logger = logging.getLogger(__name__)

# Module and class, in the order in which tables show them.
_OURS = (
    ("duetlink.data.codecs.raw", "Raw"),
    ("duetlink.data.codecs.zlib_", "Zlib"),
    ("duetlink.data.codecs.lzma_", "Lzma"),
    ("duetlink.data.codecs.zstd", "Zstd"),
    ("duetlink.data.codecs.lz4_", "Lz4"),
    ("duetlink.data.codecs.blosc2_", "Blosc2"),
    ("duetlink.data.codecs.pcodec_", "Pcodec"),
    ("duetlink.data.codecs.planes", "Planes"),
    ("duetlink.data.codecs.blosc2_", "Blosc2Bitshuffle"),
    ("duetlink.data.codecs.blosc2_", "Blosc2Bytedelta"),
    ("duetlink.data.codecs.frame_of_reference", "FrameOfReference"),
    ("duetlink.data.codecs.decimals", "Decimals"),
    ("duetlink.data.codecs.sparse", "Sparse"),
    ("duetlink.data.codecs.delta", "Delta"),
    ("duetlink.data.codecs.lossy.narrow", "Float16"),
    ("duetlink.data.codecs.lossy.narrow", "Bfloat16"),
    ("duetlink.data.codecs.lossy.blocks", "Block8"),
    ("duetlink.data.codecs.lossy.blocks", "Block4"),
    ("duetlink.data.codecs.lossy.qsgd", "Qsgd"),
    ("duetlink.data.codecs.lossy.natural", "Natural"),
    ("duetlink.data.codecs.gradients.sparse_gradient", "SparseGradient"),
    ("duetlink.data.codecs.gradients.power_sgd", "LowRank"),
    ("duetlink.data.codecs.gradients.random_k", "RandomSubset"),
)


@functools.cache
def _table() -> dict[str, Codec]:
    found: dict[str, Codec] = {}
    for module, name in _OURS:
        try:
            codec_class = getattr(importlib.import_module(module), name)
        except ModuleNotFoundError as error:
            _logger.info("codec %s is not available: %s", name, error)
            continue
        _add(found, codec_class())
    for entry in entry_points(ENTRY_POINTS):
        try:
            _add(found, entry.load()())
        except Exception:
            _logger.exception("codec %s of %s cannot be used", entry.name, entry.value)
    return found


def _add(table: dict[str, Codec], codec: Codec) -> None:
    if not isinstance(codec, Codec):
        raise LocalProtocolError(
            f"{codec!r} is not a duetlink.codecs.Codec; register an instance of a subclass"
        )
    for known in table.values():
        if known.number == codec.number or known.name == codec.name:
            raise LocalProtocolError(
                f"codec {codec.name!r} ({codec.number}) has the name or number of {known.name!r}"
                f" ({known.number}); from {FIRST_FREE_NUMBER:#x} on numbers are free"
            )
    table[codec.name] = codec


def register(codec: Codec) -> None:
    """Add a codec to this process. The peer must do the same, or the codec is not chosen.

    Raises:
        LocalProtocolError: its name or number is taken.
    """
    _add(_table(), codec)


def codecs() -> tuple[Codec, ...]:
    """Return all installed codecs."""
    return tuple(_table().values())


def named(name: str) -> Codec:
    """Return the codec of that name.

    Raises:
        UnknownCodec: it is not installed; the message lists those that are.
    """
    try:
        return _table()[name]
    except KeyError:
        raise UnknownCodec(f"no codec {name!r} here; there are {', '.join(_table())}") from None


def by_number(number: int) -> Codec:
    """Return the codec of that number.

    Raises:
        UnknownCodec: it is not installed; the message lists those that are.
    """
    for codec in _table().values():
        if codec.number == number:
            return codec
    raise UnknownCodec(
        f"a chunk of codec {number}, which is not installed here; there are {', '.join(_table())}"
    )
