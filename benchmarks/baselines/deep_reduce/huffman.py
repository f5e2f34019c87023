"""Canonical Huffman codes of gaps (Huffman 1952): for a gap's size class, then the rest of it as it is.

Classes are those of DEFLATE's distances (RFC 1951, section 3.2.5): two for each number of bits. Codes have at
most 15 bits. They are written in groups of 256; the end of each stands in the payload, so that all groups
are decoded side by side.

    classes u8 | their code lengths u8 ... | codes of a group, in bits, u16 ... | codes | the rest of each gap
"""

from __future__ import annotations

import heapq
import math
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from duetlink.data.codecs.gradients.indices import bits
from duetlink.data.codecs.gradients.indices.base import IndexCodec, Positions
from duetlink.data.codecs.gradients.indices.gaps import bits_per_position, gaps_of, positions_of
from duetlink.errors import MalformedChunk

_GROUP = 256  # symbols; times 15 bits, u16
_MAX_LENGTH = 15
_CLASSES = 2 * bits.MAX_WIDTH + 2
_LOSS = 0.12  # bits above the entropy, about

Lengths = NDArray[np.int64]


class Huffman(IndexCodec):
    """Follows any distribution of gaps, within a few percent."""

    number: ClassVar[int] = 6
    name: ClassVar[str] = "huffman"

    def predicted_bits(self, size: int, count: int) -> float:
        classes = 2 * max(math.log2(size / count), 1) if count else 0
        return 8 * (1 + classes) + count * max(bits_per_position(size, count) + _LOSS, 1)

    def encode(self, positions: Positions, size: int, seed: int) -> bytes:
        symbols, extra, widths = _classes(gaps_of(positions))
        lengths = _code_lengths(np.bincount(symbols))
        code_widths = lengths[symbols]
        groups = np.add.reduceat(code_widths, np.arange(0, symbols.size, _GROUP)) if symbols.size else symbols
        return b"".join(
            (
                bytes((lengths.size,)),
                lengths.astype(np.uint8).tobytes(),
                groups.astype("<u2").tobytes(),
                bits.pack(_codes(lengths)[symbols], code_widths),
                bits.pack(extra, widths),
            )
        )

    def decode(self, payload: memoryview, size: int, count: int) -> Positions:
        classes = payload[0]
        groups = -(-count // _GROUP)
        start = 1 + classes + 2 * groups
        if classes > _CLASSES or start > len(payload):
            raise MalformedChunk(f"Huffman codes of {classes} classes in {len(payload)} bytes")
        lengths = np.frombuffer(payload, np.uint8, classes, 1).astype(np.int64)
        sizes = np.frombuffer(payload, "<u2", groups, 1 + classes).astype(np.int64)
        body = payload[start:]
        code_bytes = bits.byte_count(int(sizes.sum()))
        if code_bytes > len(body):
            raise MalformedChunk(f"Huffman codes of {code_bytes} bytes in {len(body)}")
        symbols = _decode_symbols(body[:code_bytes], sizes, lengths, count)
        return positions_of(_gaps(symbols, body[code_bytes:]), size)


def _classes(gaps: Positions) -> tuple[Positions, Positions, Lengths]:
    """Each gap's class, the rest of it, and how many bits that has. 0 and 1 are their own classes."""
    exponents = np.frexp(gaps.astype(np.float64))[1].astype(np.int64) - 1  # exact below 2^53
    widths = np.maximum(exponents - 1, 0)
    top = gaps >> widths  # 0, 1, or the two topmost bits: 2 or 3
    return top + 2 * widths, gaps & ((np.int64(1) << widths) - 1), widths


def _gaps(symbols: Positions, payload: memoryview) -> Positions:
    """The inverse of `_classes`; raises MalformedChunk where `payload` is not the rest of them."""
    widths = np.maximum((symbols >> 1) - 1, 0)
    ends = np.cumsum(widths)
    total = int(ends[-1]) if ends.size else 0
    if len(payload) != bits.byte_count(total):
        raise MalformedChunk(f"gaps with {total} more bits in {len(payload)} bytes")
    extra = bits.take(bits.readable(payload), ends - widths, widths).astype(np.int64)
    gaps: Positions = ((symbols - 2 * widths) << widths) | extra
    return gaps


def _code_lengths(counts: NDArray[np.int64]) -> Lengths:
    """Of every symbol; 0: it does not occur. Rare symbols count as less rare until no code is too long."""
    lengths = _tree_depths(counts)
    while lengths.max(initial=0) > _MAX_LENGTH:
        counts = (counts + 1) // 2
        lengths = _tree_depths(counts)
    return lengths


def _tree_depths(counts: NDArray[np.int64]) -> Lengths:
    lengths = np.zeros(counts.size, np.int64)
    heap = [(int(counts[symbol]), int(symbol), [int(symbol)]) for symbol in np.flatnonzero(counts)]
    if len(heap) == 1:
        lengths[heap[0][1]] = 1
    heapq.heapify(heap)
    while len(heap) > 1:
        (first, symbol, some), (second, _, others) = heapq.heappop(heap), heapq.heappop(heap)
        lengths[some + others] += 1
        heapq.heappush(heap, (first + second, symbol, some + others))
    return lengths


def _codes(lengths: Lengths) -> NDArray[np.int64]:
    """Canonical: rising with the length, then with the symbol (RFC 1951, section 3.2.2)."""
    codes = np.zeros(lengths.size, np.int64)
    code = 0
    for length in range(1, _MAX_LENGTH + 1):
        code <<= 1
        for symbol in np.flatnonzero(lengths == length):
            codes[symbol] = code
            code += 1
    return codes


def _table(lengths: Lengths) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """By the next 15 bits: the symbol, and the length of its code."""
    if lengths.max(initial=0) > _MAX_LENGTH or np.ldexp(1.0, -lengths[lengths > 0]).sum() > 1:
        raise MalformedChunk("lengths that no prefix code has")
    order = np.lexsort((np.arange(lengths.size), lengths))
    order = order[lengths[order] > 0]
    entries = 1 << (_MAX_LENGTH - lengths[order])
    missing = (0, (1 << _MAX_LENGTH) - int(entries.sum()))
    symbols, widths = (np.repeat(of.astype(np.uint8), entries) for of in (order, lengths[order]))
    return np.pad(symbols, missing), np.pad(widths, missing)


def _decode_symbols(payload: memoryview, sizes: Lengths, lengths: Lengths, count: int) -> Positions:
    symbols, widths = _table(lengths)
    readable = bits.readable(payload)
    ends = np.cumsum(sizes)
    at = ends - sizes
    found = np.zeros((_GROUP, sizes.size), np.int64)
    last = count - _GROUP * (sizes.size - 1)  # symbols of the last group
    for step in range(_GROUP if sizes.size > 1 else count):
        groups = sizes.size if step < last else sizes.size - 1
        codes = bits.take(readable, at[:groups], _MAX_LENGTH).astype(np.int64)
        found[step, :groups] = symbols[codes]
        at[:groups] = np.minimum(at[:groups] + widths[codes], ends[:groups])
    if (at != ends).any():
        raise MalformedChunk("a group of Huffman codes does not end where it should")
    return found.T.reshape(-1)[:count]
