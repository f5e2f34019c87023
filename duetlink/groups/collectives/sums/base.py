"""The contract of a coded sum: it turns all members' flat arrays into their sum, and returns a report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from duetlink.data.codecs.element import Element
from duetlink.errors import UnsupportedValue
from duetlink.groups.collectives.execution.elements import Array
from duetlink.groups.collectives.values.flat import CollectiveOptions, FlatOperations


@dataclass(frozen=True, slots=True)
class SumReport:
    """The report of one sum at this member. `str()` is a few sentences."""

    codec: str  # the codec that was requested
    way: str  # the method that ran: "dense", "union", "integers", …
    why: str
    element: str
    items: int
    members: int
    dense_items: int  # items that were added in the array's own type
    union_items: int | None = None  # items that are not zero at some member, if counted
    bound: float = 0.0  # the largest error of an item, before rounding; inf: unknown
    left_out_items: int = 0  # items that are not 0 at this member and were not sent
    predicted_s: Mapping[str, float] = field(default_factory=dict)
    elapsed_s: float = 0.0
    sent_bytes: int = 0  # by this member, for the whole sum
    dense_bytes: int = 0  # bytes that a dense sum would send; 0 through shared memory

    @property
    def lossless(self) -> bool:
        """True if the result has the bits of the dense sum."""
        return self.bound == 0 and not self.left_out_items

    @property
    def density(self) -> float | None:
        """The density of the union of all members' supports, from 0 to 1; None if it is not known."""
        return None if self.union_items is None else self.union_items / max(1, self.items)

    def __str__(self) -> str:
        lines = [
            f"{self.element}[{self.items:,}] among {self.members} members, codec {self.codec}: {self.way}, "
            f"{self.elapsed_s * 1000:,.1f} ms; {self.why}"
        ]
        if self.density is not None:
            lines.append(f"  union: {self.union_items:,} items, {self.density:.2%}")
        if self.dense_bytes:
            lines.append(f"  sent: {self.sent_bytes:,} bytes, where a dense sum sends {self.dense_bytes:,}")
        lines.append(f"  result: {self._result()}")
        lines += [f"  predicted {way}: {s * 1000:,.2f} ms" for way, s in self.predicted_s.items()]
        return "\n".join(lines)

    def _result(self) -> str:
        if self.lossless:
            return "the bits of the dense sum"
        parts = []
        if self.bound == math.inf:
            parts.append("no bound is known")
        elif self.bound:
            parts.append(f"each item within {self.bound:.3g} of the sum, before rounding")
        if self.left_out_items:
            parts.append(f"{self.left_out_items:,} items of this member were left out")
        return "; ".join(parts)

    __repr__ = __str__


class SumJob(NamedTuple):
    """One flat array to be summed in place; it is written only when its whole sum has been received."""

    flat: FlatOperations
    array: Array
    element: Element
    op: str
    codec: str
    options: CollectiveOptions

    @property
    def members(self) -> int:
        return self.flat.engine.size

    @property
    def form(self) -> str:
        """The form of the array, by which calls are compared: `float32[1000]`."""
        return self.options.what or f"{self.element.name}[{self.array.size}]"

    def step(self, what: str, codec: str | None = None) -> CollectiveOptions:
        """Name one operation of this sum, for errors and for the comparison of calls."""
        return replace(
            self.options,
            what=f"{self.form}, codec {self.codec}: {what}",
            name="all_reduce",
            algorithm=None,
            codec=codec,
        )

    def report(self, way: str, why: str, *, dense_items: int, union_items: int | None = None) -> SumReport:
        return SumReport(
            self.codec,
            way,
            why,
            self.element.name,
            self.array.size,
            self.members,
            dense_items,
            union_items,
        )

    async def dense(self, why: str, union_items: int | None = None) -> SumReport:
        """Sum whole arrays, as without a codec."""
        options = replace(self.options, what=f"{self.form}, codec {self.codec}: all", codec=None)
        await self.flat.all_reduce(self.array, self.element, self.op, options)
        return self.report("dense", why, dense_items=self.array.size, union_items=union_items)


def check_sum(codec: str, element: Element, op: str) -> None:
    """Raises UnsupportedValue unless the operation is a sum or a mean."""
    if op not in ("sum", "mean"):
        raise UnsupportedValue(f"codec {codec} is for sums and means, not for {op}")


def check_floats(codec: str, element: Element, op: str) -> None:
    """Raises UnsupportedValue unless the operation is a sum or a mean of real floating point numbers."""
    check_sum(codec, element, op)
    if not element.is_float:
        raise UnsupportedValue(
            f"codec {codec} is for real floating point numbers, not {element.name}; auto and union take both"
        )
