"""The chunks of a body.

They follow from the target and the row sizes of the runs. A receiver cuts the older bodies that it holds by
the sender's target, so the sender may choose any target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from duetlink.data.dedup.content import content_sizes
from duetlink.data.dedup.fixed import fixed_sizes
from duetlink.data.dedup.gear import Gear
from duetlink.data.dedup.layout import (
    MAX_BODY_BYTES,
    MAX_TARGET_BYTES,
    MIN_TARGET_BYTES,
    Run,
    Segment,
    default_target,
    layout,
)
from duetlink.data.dedup.pieces import Body, Pieces
from duetlink.errors import LocalProtocolError


@dataclass(frozen=True, slots=True, eq=False)
class Cuts:
    """The chunks of a body, in order, without gaps. `sizes_bytes` has shape (chunks,)."""

    target_bytes: int
    runs: tuple[Run, ...]
    sizes_bytes: NDArray[np.int64]

    @property
    def body_bytes(self) -> int:
        return sum(run.size_bytes for run in self.runs)

    @property
    def ends(self) -> list[int]:
        """The end offset of each chunk in the body."""
        return list(self.sizes_bytes.cumsum().tolist())


def cut(body: Body, segments: Sequence[Segment], target_bytes: int | None = None) -> Cuts:
    """Cut a body into chunks. Its byte streams are read once.

    Raises:
        LocalProtocolError: the body is above 1 TiB, its segments are not in order within it, or the target is
            not a power of two from 8 KiB to 16 MiB.
    """
    pieces = Pieces(body)
    if pieces.size_bytes > MAX_BODY_BYTES:
        raise LocalProtocolError(f"a body of {pieces.size_bytes:,} bytes; at most {MAX_BODY_BYTES:,}")
    target = default_target(pieces.size_bytes, segments) if target_bytes is None else target_bytes
    if not MIN_TARGET_BYTES <= target <= MAX_TARGET_BYTES or target.bit_count() != 1:
        raise LocalProtocolError(f"chunks near {target} bytes; a power of two from 8 KiB to 16 MiB is needed")
    runs = layout(pieces.size_bytes, segments, target)
    gear = Gear()
    sizes: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
    position = 0
    for run in runs:
        sizes.append(run_sizes(pieces, position, run, target, gear))
        position += run.size_bytes
    return Cuts(target, tuple(runs), np.concatenate(sizes))


def run_sizes(pieces: Pieces, start: int, run: Run, target_bytes: int, gear: Gear) -> NDArray[np.int64]:
    """Return the sizes of the chunks of the run that begins at `start`."""
    if run.row_bytes:
        return fixed_sizes(run.size_bytes, run.row_bytes, target_bytes)
    return np.array(content_sizes(pieces, start, start + run.size_bytes, target_bytes, gear), np.int64)
