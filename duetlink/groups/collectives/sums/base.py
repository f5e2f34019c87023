"""The contract of a coded sum: all members' flat arrays become their sum, and a report says how."""

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
    """How a sum was made, at this member. `str()` is a sentence or two."""

    codec: str  # what was asked for
    way: str  # what ran: "dense", "union", "integers", …
    why: str
    element: str
    items: int
    members: int
    dense_items: int  # items that were added as they are, of all or of the union
    union_items: int | None = None  # items that are not zero at some member, where that was found out
    bound: float = 0.0  # how far an item may be from the sum, before it is rounded; inf: nobody knows
    left_out_items: int = 0  # items that are not 0 here and did not travel
    predicted_s: Mapping[str, float] = field(default_factory=dict)
    elapsed_s: float = 0.0
    sent_bytes: int = 0  # by this member, all in all
    dense_bytes: int = 0  # that it would have sent without a codec; 0 through memory that members share

    @property
    def lossless(self) -> bool:
        """Whether the result has the bits of the dense sum."""
        return self.bound == 0 and not self.left_out_items

    @property
    def density(self) -> float | None:
        """That of the union of all members' supports."""
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
    """One flat array to be summed, in place; it is written only once all of its sum is here."""

    flat: FlatOperations
    array: Array
    element: Element
    op: str
    codec: str
    manner: CollectiveOptions

    @property
    def members(self) -> int:
        return self.flat.engine.size

    @property
    def form(self) -> str:
        """Of the array, for the comparison of calls."""
        return self.manner.what or f"{self.element.name}[{self.array.size}]"

    def step(self, what: str, codec: str | None = None) -> CollectiveOptions:
        """How one operation of this sum is called."""
        return replace(
            self.manner,
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
        """Add whole arrays, as without a codec."""
        manner = replace(self.manner, what=f"{self.form}, codec {self.codec}: all", codec=None)
        await self.flat.all_reduce(self.array, self.element, self.op, manner)
        return self.report("dense", why, dense_items=self.array.size, union_items=union_items)


def check_sum(codec: str, element: Element, op: str) -> None:
    """Raises UnsupportedValue for another operation than a sum or a mean."""
    if op not in ("sum", "mean"):
        raise UnsupportedValue(f"codec {codec} is for sums and means, not for {op}")


def check_floats(codec: str, element: Element, op: str) -> None:
    """The same, and for items that are no real floating point numbers."""
    check_sum(codec, element, op)
    if not element.is_float:
        raise UnsupportedValue(
            f"codec {codec} is for real floating point numbers, not {element.name}; auto and union take both"
        )
