"""A compressor's state as bytes and back, without pickle.

    "DLG1" | (key size u16 | key, UTF-8 | chunk) ...                                       (little-endian)

Numbers are chunks without dimensions: int64 or float64. The only codec is raw, so decoding allocates nothing:
the arrays are copied out of the bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np

from duetlink.data.codecs import chunk
from duetlink.data.codecs.base import Array, Codec, Octets
from duetlink.data.codecs.raw import Raw
from duetlink.errors import LocalProtocolError, MalformedChunk

MAGIC = b"DLG1"
MAX_KEY_BYTES = 4096
_KEY = struct.Struct("<H")

State = dict[str, Array | int | float]


def to_bytes(state: Mapping[str, Array | float]) -> bytes:
    """Return a state dict as bytes.

    Raises:
        LocalProtocolError: a key is too long, or a value is neither an array nor a number.
    """
    parts = [MAGIC]
    for key, value in state.items():
        name = key.encode()
        if len(name) > MAX_KEY_BYTES:
            raise LocalProtocolError(f"a state's key of {len(name)} bytes; at most {MAX_KEY_BYTES}")
        parts += [_KEY.pack(len(name)), name, chunk.encode(_as_array(value), Raw())]
    return b"".join(parts)


def from_bytes(data: Octets) -> State:
    """Return the state dict that `to_bytes` was given; its arrays are writable copies.

    Raises:
        MalformedChunk: the bytes are cut short, were altered, or are no state.
        LimitExceeded: an array is declared larger than `data`.
    """
    view = memoryview(data).cast("B")
    if bytes(view[: len(MAGIC)]) != MAGIC:
        raise MalformedChunk("the bytes do not start as a compressor's state does")
    state: State = {}
    at = len(MAGIC)
    while at < len(view):
        key, at = _read_key(view, at)
        if key in state:
            raise MalformedChunk(f"a state names {key!r} twice")
        header = chunk.read_header(view[at:], len(view))
        array, _ = chunk.decode(view[at : at + header.chunk_bytes], len(view), codecs=_raw_only)
        state[key] = _as_value(array)
        at += header.chunk_bytes
    return state


def _read_key(view: memoryview, at: int) -> tuple[str, int]:
    if len(view) < at + _KEY.size:
        raise MalformedChunk("a state ends within a key")
    (size,) = _KEY.unpack_from(view, at)
    at += _KEY.size
    if size > MAX_KEY_BYTES or len(view) < at + size:
        raise MalformedChunk(f"a state's key of {size} bytes, with {len(view) - at} left")
    try:
        return str(view[at : at + size], "utf-8"), at + size
    except UnicodeDecodeError as error:
        raise MalformedChunk(f"a state's key is not text: {error}") from error


def _raw_only(number: int) -> Codec:
    if number != Raw.number:
        raise MalformedChunk(f"a state in codec {number}; only {Raw.name} may be")
    return Raw()


def _as_array(value: Array | float) -> Array:
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, int):
        return np.array(value, np.int64)
    if isinstance(value, float):
        return np.array(value, np.float64)
    raise LocalProtocolError(f"a state holds arrays and numbers, not {type(value).__name__}")


def _as_value(array: Array) -> Array | int | float:
    if array.ndim == 0 and array.dtype == np.int64:
        return int(array)
    if array.ndim == 0 and array.dtype == np.float64:
        return float(array)
    return array.copy()
