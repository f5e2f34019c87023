"""A sparse gradient as bytes: positions by an index codec, values by a value codec (DeepReduce's split).

    index codec u8 | value codec u8 | count u64 | bytes of positions u64 | positions | values  (little-endian)

Xu et al., NeurIPS 2021, arXiv:2102.03112. The size of the gradient is in the chunk's header.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from duetlink.data.codecs.gradients import indices
from duetlink.data.codecs.gradients import values as value_codecs
from duetlink.data.codecs.gradients.indices.base import Positions
from duetlink.data.codecs.gradients.values.base import Values
from duetlink.errors import DuetError, LocalProtocolError, MalformedChunk

_HEAD = struct.Struct("<BBQQ")


@dataclass(frozen=True, slots=True)
class SparseCode:
    """An encoded sparse gradient, and the positions and values that its reader will decode."""

    payload: bytes
    positions: Positions  # the positions sent; an inexact index codec may change them
    decoded: Values  # the values at those positions


def encode_sparse(
    flat: Values, positions: Positions, *, index: str = "auto", value: str = "auto", seed: int = 0
) -> SparseCode:
    """Encode the items of `flat` (n,) at `positions` (r,): int64, sorted, unique, below n.

    `index` and `value` name codecs (`indices`, `values`). "auto" is the index codec of fewest predicted bits,
    and 8-bit blocks of values. `seed` (64 bits) seeds all random choices: equal seeds and inputs give equal
    payloads.

    Raises:
        LocalProtocolError: there is no such codec, or the positions are not sorted, unique and below n.
        CodecFailed: the codec cannot write these values.
    """
    _check(flat, positions)
    index_codec = indices.chosen(index, flat.size, positions.size)
    value_codec = value_codecs.chosen(value)
    index_payload = index_codec.encode(positions, flat.size, seed)
    if not index_codec.exact:
        positions = index_codec.decode(memoryview(index_payload), flat.size, positions.size)
    value_payload = value_codec.encode(flat[positions], seed)
    decoded = value_codec.decode(memoryview(value_payload), positions.size)
    head = _HEAD.pack(index_codec.number, value_codec.number, positions.size, len(index_payload))
    return SparseCode(head + index_payload + value_payload, positions, decoded)


def decode_sparse(payload: memoryview, size: int) -> tuple[Positions, Values]:
    """Return the positions, int64, sorted, unique, below `size`, and the float32 values at them.

    Raises:
        MalformedChunk: it is not a payload of `encode_sparse` for a gradient of `size` items.
        UnknownCodec: its codecs are not installed.
    """
    if len(payload) < _HEAD.size:
        raise MalformedChunk(f"a sparse gradient in {len(payload)} bytes")
    index_number, value_number, count, index_bytes = _HEAD.unpack_from(payload)
    body = payload[_HEAD.size :]
    if count > size or index_bytes > len(body):
        raise MalformedChunk(f"{count} of {size} items, at positions in {index_bytes} of {len(body)} bytes")
    index_codec, value_codec = indices.by_number(index_number), value_codecs.by_number(value_number)
    try:
        positions = index_codec.decode(body[:index_bytes], size, count)
        values = value_codec.decode(body[index_bytes:], count)
    except DuetError:
        raise
    except Exception as error:
        raise MalformedChunk(
            f"{index_codec.name} and {value_codec.name} cannot decode {len(body)} bytes: {error}"
        ) from error
    if not positions.size == count == values.size:
        raise MalformedChunk(f"{positions.size} positions and {values.size} values of {count}")
    return positions, values


def _check(flat: Values, positions: Positions) -> None:
    if flat.ndim != 1 or flat.dtype != np.float32 or positions.ndim != 1 or positions.dtype != np.int64:
        raise LocalProtocolError(
            f"float32 (n,) and int64 (r,) are coded, not {flat.dtype} {flat.shape} and"
            f" {positions.dtype} {positions.shape}"
        )
    if positions.size and (positions[0] < 0 or positions[-1] >= flat.size or (np.diff(positions) <= 0).any()):
        raise LocalProtocolError(f"positions must be sorted, unique and below {flat.size}")
