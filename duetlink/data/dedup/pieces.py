"""A body that lies in memory in several pieces, read as if it were one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TypeAlias

Body: TypeAlias = bytes | memoryview | Sequence[memoryview]  # whole, or a gather list; C-contiguous


class Pieces:
    """Byte ranges of a body. Only a view that spans two pieces copies."""

    def __init__(self, body: Body) -> None:
        pieces = [memoryview(body)] if isinstance(body, bytes | memoryview) else body
        self._views = [piece.cast("B") for piece in pieces if piece.nbytes]
        self._starts: list[int] = []
        self.size_bytes = 0
        for view in self._views:
            self._starts.append(self.size_bytes)
            self.size_bytes += len(view)

    def parts(self, start: int, end: int) -> Iterator[memoryview]:
        """Yield the memory from `start` to before `end`, both within the body."""
        index = bisect_right(self._starts, start) - 1
        while start < end:
            offset, view = self._starts[index], self._views[index]
            yield view[start - offset : end - offset]
            start, index = offset + len(view), index + 1

    def view(self, start: int, end: int) -> memoryview:
        """Return the range as one view, copied if it spans several pieces."""
        parts = list(self.parts(start, end))
        return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))
