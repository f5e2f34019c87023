"""The layout of an encoded value.

    magic "DLV1" | u32-le header size | header | zeros | segment 0 | zeros | segment 1 | …

Every segment starts at a multiple of 64 bytes from the body's start: arrays in a page-aligned body are
aligned for vector instructions. The header holds the sizes of the segments, from which their starts follow.
So overlap, gaps and trailing bytes cannot be expressed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from google.protobuf.message import DecodeError

from duetlink.data.values.schema_pb2 import Header
from duetlink.errors import LimitExceeded, MalformedValue

MAGIC = b"DLV1"
ALIGNMENT = 64
# The parser allocates up to about 16 bytes for each byte of a malicious header.
MAX_HEADER_BYTES = 64 << 20
MAX_SEGMENTS_PER_NODE = 3
_PREFIX = struct.Struct("<4sI")


def padding(size_bytes: int) -> int:
    """Return the number of zeros up to the next multiple of 64."""
    return -size_bytes % ALIGNMENT


def prefix(nodes: Sequence[bytes], segment_sizes: Sequence[int]) -> bytes:
    """Return everything before the first segment's padding; raise OverflowError for a header that is too
    large."""
    header = Header(nodes=nodes, segment_sizes=segment_sizes).SerializeToString()
    if len(header) > MAX_HEADER_BYTES:
        raise OverflowError(f"a header of {len(header):,} bytes")
    return _PREFIX.pack(MAGIC, len(header)) + header


def size_bytes(prefix_size: int, segment_sizes: Iterable[int]) -> int:
    """Return the size of the whole body; the last segment is not padded."""
    end = prefix_size
    for size in segment_sizes:
        end += padding(end) + size
    return end


def starts(prefix_size: int, segment_sizes: Iterable[int]) -> list[int]:
    """Return the start of each segment, in bytes from the body's start."""
    found = []
    end = prefix_size
    for size in segment_sizes:
        found.append(end + padding(end))
        end = found[-1] + size
    return found


def gather(head: bytes, segments: Iterable[Sequence[memoryview]]) -> tuple[memoryview, ...]:
    """Return the pieces to send, in order. Each segment is given as a list of pieces."""
    pieces = [memoryview(head)]
    end = len(head)
    for segment in segments:
        if padding(end):
            pieces.append(memoryview(bytes(padding(end))))
            end += padding(end)
        pieces.extend(piece for piece in segment if piece.nbytes)
        end += sum(piece.nbytes for piece in segment)
    return tuple(pieces)


def split(body: memoryview, max_nodes: int) -> tuple[Header, list[memoryview]]:
    """Return the header and the segments as views of `body`; raise MalformedValue or LimitExceeded."""
    if len(body) < _PREFIX.size:
        raise MalformedValue(f"a value of {len(body)} bytes is cut short")
    magic, header_size = _PREFIX.unpack_from(body)
    if magic != MAGIC:
        raise MalformedValue("the bytes do not start as an encoded value does")
    if header_size > MAX_HEADER_BYTES:
        raise LimitExceeded(f"the value's header of {header_size:,} bytes is above {MAX_HEADER_BYTES:,}")
    end = _PREFIX.size + header_size
    if end > len(body):
        raise MalformedValue(f"the header ends at {end:,}, after the value's {len(body):,} bytes")
    try:
        header = Header.FromString(bytes(body[_PREFIX.size : end]))
    except DecodeError as error:
        raise MalformedValue("the value's header cannot be parsed") from error
    if len(header.nodes) > max_nodes:
        raise LimitExceeded(f"the value has {len(header.nodes):,} parts, more than {max_nodes:,}")
    if len(header.segment_sizes) > len(header.nodes) * MAX_SEGMENTS_PER_NODE:
        raise MalformedValue("the value has more segments than its parts can use")
    segments = []
    for size in header.segment_sizes:
        start = end + padding(end)
        if size > len(body) - start:
            raise MalformedValue(f"a segment of {size:,} bytes ends after the value's {len(body):,}")
        if any(body[end:start]):
            raise MalformedValue("the space between segments is not zero")
        segments.append(body[start : start + size])
        end = start + size
    if end != len(body):
        raise MalformedValue(f"the value ends at {end:,} of {len(body):,} bytes")
    return header, segments
