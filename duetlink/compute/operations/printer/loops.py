"""Loops, and the rows of items in which they are searched."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Item: TypeAlias = "int | Loop"  # a step, by its position, or a loop
Reference: TypeAlias = tuple[int, int]  # a step, and the index among its references
Numbers: TypeAlias = NDArray[np.int64]

_WINDOW = 6
_QUICK = 8  # items compared one by one before vectorised comparison


@dataclass(slots=True, eq=False)
class Loop:
    """Rounds that do the same. A result of an inner loop is that of its last round."""

    rounds: Sequence[Sequence[Item]]
    key: Hashable = None
    outer: Sequence[Reference] = ()  # references of the first round to results outside the loop
    # reference of the first round that later rounds take from the round before -> the step that makes it
    carried: dict[Reference, int] = field(default_factory=dict)
    # step that makes a carried result -> step that makes the initial value
    initial: dict[int, int] = field(default_factory=dict)
    # steps of the first round whose results, of all rounds, are used after the loop
    collected: set[int] = field(default_factory=set)


def results_of(item: Item, which: int) -> Iterator[int]:
    """Yield the steps of an item; of a loop, those of its first (`which` 0) or last (-1) round, in
    the same order.
    """
    if isinstance(item, int):
        yield item
    else:
        for part in item.rounds[which]:
            yield from results_of(part, which)


@dataclass(slots=True, eq=False)
class Row:
    """Items in order, with the item that makes each of their references."""

    items: Sequence[Item]
    keys: Numbers  # equal keys: the items do the same
    ends: Numbers  # end of each item's references
    makers: Numbers  # of each reference: the item that makes it; below 0: none
    slots: Numbers  # of each reference: the index among the item's results
    sources: Sequence[Reference] | None  # step and index of each reference; None: items are steps

    def begin(self, index: int) -> int:
        """Return the index of an item's first reference."""
        return int(self.ends[index - 1]) if index else 0

    def source(self, index: int) -> Reference:
        """Return the step of a reference, and its index within the step."""
        if self.sources is not None:
            return self.sources[index]
        step = int(np.searchsorted(self.ends, index, side="right"))
        return step, index - self.begin(step)

    def matching(self, position: int, period: int, keys: Sequence[int]) -> int:
        """Count the items from `position` on that do the same as the items `period` before them.

        `keys` is `self.keys` as a list.
        """
        here = position
        while here < min(position + _QUICK, len(keys)):
            if keys[here] != keys[here - period] or not self.same(here, period, 1):
                return here - position
            here += 1
        many = 64
        while here < len(keys):
            many = min(many * 4, len(keys) - here)
            fits = self.same(here, period, many)
            here += fits
            if fits < many:
                break
        return here - position

    def same(self, position: int, period: int, count: int) -> int:
        """Count how many of the next `count` items do the same as the items `period` before them."""
        alike = (
            self.keys[position : position + count] == self.keys[position - period : position - period + count]
        )
        if not alike.all():
            count = int(np.argmin(alike))
            if not count:
                return 0
        begin, before = self.begin(position), self.begin(position - period)
        size = int(self.ends[position + count - 1]) - begin
        mine, theirs = self.makers[begin : begin + size], self.makers[before : before + size]
        right = self.slots[begin : begin + size] == self.slots[before : before + size]
        right &= (mine == theirs) | ((mine - theirs == period) & (theirs >= 0))
        if right.all():
            return count
        wrong = begin + int(np.argmin(right))
        return int(np.searchsorted(self.ends, wrong, side="right")) - position

    def windows(self) -> list[int]:
        """Return a rolling hash of each item and the five after it; equal hashes mean probably equal
        items.
        """
        padded = np.concatenate([self.keys, np.zeros(_WINDOW, np.int64)]).astype(np.uint64)
        found = np.zeros(len(self.keys), np.uint64)
        for offset in range(_WINDOW):
            found = found * np.uint64(0x9E3779B97F4A7C15) + padded[offset : offset + len(self.keys)]
        listed: list[int] = found.tolist()
        return listed
