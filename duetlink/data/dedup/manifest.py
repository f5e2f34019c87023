"""The announcement of a body's chunks: the rule of the cuts and the name of each chunk.

    version u8 | log2 of the target u8 | entries u32 | content-defined chunks u32
    | repeats u32 ... | run sizes u64 ... | row sizes u64 ...   (an entry per series of equal runs)
    | chunk sizes u32 ...                                       (of the content-defined chunks alone)
    | names, 16 bytes each                                      (little-endian)

The sizes of fixed chunks follow from the rule. A chunk takes 16 to 20 bytes: 0.1 to 0.25 % of most bodies.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from duetlink.data.dedup.content import largest, smallest
from duetlink.data.dedup.cuts import Cuts
from duetlink.data.dedup.fixed import fixed_count, fixed_sizes
from duetlink.data.dedup.layout import (
    MAX_BODY_BYTES,
    MAX_CHUNKS,
    MAX_RUNS,
    MAX_TARGET_BYTES,
    MIN_TARGET_BYTES,
    NAME_BYTES,
    Run,
)
from duetlink.errors import LimitExceeded, RemoteProtocolError

VERSION = 1
_HEAD = struct.Struct("<BBII")
_ENTRY_BYTES = 4 + 8 + 8
_SIZE_BYTES = 4

_Entry = tuple[int, Run]  # number of consecutive equal runs, and the run


@dataclass(frozen=True, slots=True, eq=False)
class Manifest:
    """The chunks of a body, with one name each."""

    cuts: Cuts
    names: list[bytes]

    def to_bytes(self) -> bytes:
        entries = [(len(list(equal)), run) for run, equal in groupby(self.cuts.runs)]
        content = self.cuts.sizes_bytes[_by_content(self.cuts)]
        return b"".join(
            (
                _HEAD.pack(VERSION, self.cuts.target_bytes.bit_length() - 1, len(entries), len(content)),
                np.array([repeat for repeat, _ in entries], "<u4").tobytes(),
                np.array([run.size_bytes for _, run in entries], "<u8").tobytes(),
                np.array([run.row_bytes for _, run in entries], "<u8").tobytes(),
                content.astype("<u4").tobytes(),
                *self.names,
            )
        )

    @classmethod
    def from_bytes(cls, data: bytes | memoryview, body_bytes: int) -> Manifest:
        """Parse the manifest of a body that was announced with `body_bytes` bytes.

        Raises:
            RemoteProtocolError: `data` is malformed, is cut short, or its chunks do not tile such a body.
            LimitExceeded: it has too many runs or chunks, or its target is out of bounds.
        """
        view = memoryview(data).cast("B")
        if len(view) < _HEAD.size:
            raise RemoteProtocolError(f"{len(view)} bytes are too few for a manifest")
        version, log2_target, entry_count, content_count = _HEAD.unpack_from(view)
        if version != VERSION:
            raise RemoteProtocolError(f"a manifest of version {version}; this side reads {VERSION}")
        target = 1 << log2_target
        if not MIN_TARGET_BYTES <= target <= MAX_TARGET_BYTES:
            raise LimitExceeded(f"a manifest with chunks near 2^{log2_target} bytes")
        if entry_count > MAX_RUNS or content_count > MAX_CHUNKS or body_bytes > MAX_BODY_BYTES:
            raise LimitExceeded(
                f"a manifest of {entry_count} runs and {content_count} chunks for {body_bytes} bytes"
            )
        names_at = _HEAD.size + entry_count * _ENTRY_BYTES + content_count * _SIZE_BYTES
        names, rest = divmod(len(view) - names_at, NAME_BYTES)
        if names < 0 or rest:
            raise RemoteProtocolError(f"{len(view)} bytes do not fit a manifest of {entry_count} runs")
        entries = _read_entries(view, entry_count)
        runs = _expand(entries, body_bytes)
        _check_count(entries, target, names - content_count)
        at = _HEAD.size + entry_count * _ENTRY_BYTES
        content = np.frombuffer(view, "<u4", content_count, at).astype(np.int64)
        sizes = _all_sizes(entries, _split_content(content, runs, target), target)
        octets = bytes(view[names_at:])
        return cls(
            Cuts(target, runs, sizes),
            [octets[start : start + NAME_BYTES] for start in range(0, len(octets), NAME_BYTES)],
        )


def _by_content(cuts: Cuts) -> NDArray[np.bool_]:
    """Return a mask of the content-defined chunks."""
    run_ends = np.cumsum([run.size_bytes for run in cuts.runs])
    of_run = np.searchsorted(run_ends, np.cumsum(cuts.sizes_bytes))
    return np.array([run.row_bytes == 0 for run in cuts.runs], np.bool_)[of_run]


def _read_entries(view: memoryview, count: int) -> list[_Entry]:
    repeats = np.frombuffer(view, "<u4", count, _HEAD.size).tolist()
    sizes = np.frombuffer(view, "<u8", count, _HEAD.size + 4 * count).tolist()
    rows = np.frombuffer(view, "<u8", count, _HEAD.size + 12 * count).tolist()
    return [(repeat, Run(size, row)) for repeat, size, row in zip(repeats, sizes, rows, strict=True)]


def _expand(entries: list[_Entry], body_bytes: int) -> tuple[Run, ...]:
    """Return all runs, after checking that they tile the body."""
    if sum(repeat for repeat, _ in entries) > MAX_RUNS:
        raise LimitExceeded(f"a manifest of more than {MAX_RUNS} runs")
    if any(repeat == 0 or run.size_bytes == 0 for repeat, run in entries):
        raise RemoteProtocolError("a manifest with an empty run")
    if any(run.row_bytes > run.size_bytes for _, run in entries):
        raise RemoteProtocolError("a manifest with a row that is larger than its array")
    total = sum(repeat * run.size_bytes for repeat, run in entries)
    if total != body_bytes:
        raise RemoteProtocolError(f"a manifest of {total} bytes for a body of {body_bytes}")
    return tuple(run for repeat, run in entries for _ in range(repeat))


def _check_count(entries: list[_Entry], target: int, names: int) -> None:
    """Check that there are as many names as fixed chunks, before any chunk is made."""
    count = sum(
        repeat * fixed_count(run.size_bytes, run.row_bytes, target)
        for repeat, run in entries
        if run.row_bytes
    )
    if count > MAX_CHUNKS:
        raise LimitExceeded(f"a manifest of more than {MAX_CHUNKS} chunks")
    if count != names:
        raise RemoteProtocolError(f"a manifest of {count} fixed chunks with {names} names for them")


def _split_content(sizes: NDArray[np.int64], runs: tuple[Run, ...], target: int) -> list[NDArray[np.int64]]:
    """Return the sizes of the content-defined chunks, run by run.

    Checks that they tile the runs and that only the last chunk of a run may be smaller than allowed.
    """
    run_ends = np.cumsum([run.size_bytes for run in runs if not run.row_bytes], dtype=np.int64)
    ends = np.cumsum(sizes)
    last = np.searchsorted(ends, run_ends)
    if len(sizes) != (last[-1] + 1 if len(last) else 0) or not np.array_equal(ends[last], run_ends):
        raise RemoteProtocolError("a manifest whose chunks do not tile its runs")
    inner = np.ones(len(sizes), np.bool_)
    inner[last] = False
    if (sizes > largest(target)).any() or (sizes == 0).any() or (sizes[inner] < smallest(target)).any():
        raise RemoteProtocolError("a manifest with a chunk that its rule does not allow")
    return np.split(sizes, last[:-1] + 1)


def _all_sizes(entries: list[_Entry], content: list[NDArray[np.int64]], target: int) -> NDArray[np.int64]:
    sizes = [np.empty(0, np.int64)]
    streams = iter(content)
    for repeat, run in entries:
        if run.row_bytes:
            sizes.append(np.tile(fixed_sizes(run.size_bytes, run.row_bytes, target), repeat))
        else:
            sizes.extend(next(streams) for _ in range(repeat))
    return np.concatenate(sizes)
