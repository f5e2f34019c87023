"""Reconstructs loops from the steps that they recorded.

Theory. Two steps of two rounds of a loop do the same if they have the same key and each of their references
is either the same result (made before the loop) or one made equally many steps before (in this round or the
one before). So a loop of `period` steps is a long range in which each step matches the one `period` steps
before it. In the first round, the values that later rounds take from the round before come from outside the
loop: the *initial* values. Candidates for the period are the distances to the last occurrence of the same
step, and of the same six steps. A range that was compared for one period is not compared for it again, and
the search ends when it has made too many comparisons. Loops are found from the inside out: a loop is one item
of the next pass, with the references of its first round to results outside.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

import numpy as np

from duetlink.compute.operations.printer.loops import Item, Loop, Numbers, Reference, Row, results_of

_MIN_ROUNDS = 3
_MIN_SAVED = 6  # the fewest steps that a loop must save
_PASSES = 4
_MOST_ITEMS = 50_000  # no further pass over longer code, which no one reads
_WORK = 60  # the most comparisons, per step
_STARTS = 16  # earlier first steps that are tried, where the first round may have other initial values
_MOST_ROTATIONS = 128  # first steps that are tried for a loop that was found
_ENOUGH = 4  # rounds that are enough to see what is carried over


def fold(
    keys: Sequence[int],
    ends: Sequence[int],
    makers: Sequence[int],
    last: Collection[int] = (),
    single: Collection[int] = (),
    openings: Collection[int] = (),
) -> list[Item]:
    """Return the steps, with repeated ones replaced by loops.

    Steps with equal `keys` do the same. `makers[ends[i - 1]:ends[i]]` are the steps that make the references
    of step `i` (-1: no step). `last` are the steps whose results are used at the end. `single` are the keys
    of steps whose results must not be collected in lists. `openings` are steps with which a round is likely
    to begin.
    """
    folding = _Folding(
        _array(keys), _array(ends), _array(makers), last, frozenset(single), frozenset(openings)
    )
    for _ in range(_PASSES):
        loops = folding.find()
        if not loops:
            break
        folding.replace(loops)
        if len(folding.row.items) > _MOST_ITEMS:
            break
    return list(folding.row.items)


class _Folding:
    def __init__(
        self,
        keys: Numbers,
        ends: Numbers,
        makers: Numbers,
        last: Collection[int],
        single: frozenset[int],
        openings: frozenset[int],
    ) -> None:
        self.row = self._steps = Row(range(len(keys)), keys, ends, makers, np.zeros_like(makers), None)
        self._last = last
        self._single = single
        self._openings = openings
        # step -> item, index among its results; empty while items are steps
        self._locations: dict[int, Reference] = {}
        self._loop_keys: dict[Hashable, int] = {}
        self._work = _WORK * len(keys) + 10_000

    # -- a pass ----------------------------------------------------------------------------------------------

    def find(self) -> list[tuple[int, int, Loop]]:
        """Return loops that do not overlap, as (first item, number of items, loop)."""
        row = self.row
        keys: list[int] = row.keys.tolist()
        windows = row.windows()
        last_use = self._last_uses()
        seen: dict[int, int] = {}
        seen_window: dict[int, int] = {}
        failed: dict[int, int] = {}  # period -> position up to which no loop of it exists
        loops: list[tuple[int, int, Loop]] = []
        floor = position = 0  # items before `floor` belong to a loop
        while position < len(keys):
            found = None
            key, window = keys[position], windows[position]
            for before in {seen.get(key, -1), seen_window.get(window, -1)}:
                period = position - before
                if before < floor or failed.get(period, -1) >= position or self._work < 0:
                    continue
                length = row.matching(position, period, keys)
                self._work -= length + 1
                if length >= period:
                    found = self._loop(floor, position, period, length, last_use)
                    if found is not None:
                        break
                failed[period] = position + length
            seen[key] = seen_window[window] = position
            position += 1
            if found is not None:
                loops.append(found)
                floor = position = found[0] + found[1]
        return loops

    def _last_uses(self) -> Numbers:
        """Return, for each item, the last item that refers to it."""
        row = self.row
        found = np.full(len(row.items), -1, np.int64)
        users = np.repeat(np.arange(len(row.items)), np.diff(row.ends, prepend=0))
        known = row.makers >= 0
        np.maximum.at(found, row.makers[known], users[known])
        for step in self._last:
            item = self._locations.get(step, (-1, 0))[0] if self._locations else step
            if item >= 0:
                found[item] = len(row.items)
        return found

    # -- a loop ----------------------------------------------------------------------------------------------

    def _loop(
        self, floor: int, position: int, period: int, length: int, last_use: Numbers
    ) -> tuple[int, int, Loop] | None:
        """Return the loop in the `length` items from `position` on that match the items `period`
        before; None if none.
        """
        keys = self.row.keys
        exact, end = position - period, position + length
        while exact > floor and self.row.same(exact - 1 + period, period, 1):
            exact -= 1
        start = exact
        while start > max(floor, exact - period) and keys[start - 1] == keys[start - 1 + period]:
            start -= 1  # steps of a first round with initial values
        for first in (*range(start, min(start + _STARTS, exact)), exact):
            loop = self._checked(first, period, (end - first) // period, last_use)
            if loop is not None:
                return self._rotated(first, period, end, loop, last_use)
        return None

    def _rotated(
        self, start: int, period: int, end: int, loop: Loop, last_use: Numbers
    ) -> tuple[int, int, Loop]:
        """Return the same loop with rounds that begin where they carry over the fewest results."""
        best = len(loop.carried), not self._is_opening(start), start
        for first in range(start + 1, start + min(period, _MOST_ROTATIONS)):
            rounds = min((end - first) // period, _ENOUGH + _MIN_SAVED // period)
            rotated = (
                self._checked(first, period, rounds, last_use) if best[0] or self._is_opening(first) else None
            )
            if rotated is not None:
                best = min(best, (len(rotated.carried), not self._is_opening(first), first))
        rotated = self._checked(best[2], period, (end - best[2]) // period, last_use)
        if rotated is not None:
            start, loop = best[2], rotated
        return start, len(loop.rounds) * period, loop

    def _is_opening(self, index: int) -> bool:
        return self.row.items[index] in self._openings

    def _checked(self, start: int, period: int, rounds: int, last_use: Numbers) -> Loop | None:
        """Return the loop of at most `rounds` rounds from `start` on; None if it is no loop."""
        row = self.row
        self._work -= rounds * period
        if rounds < _MIN_ROUNDS or (rounds - 1) * period < _MIN_SAVED:
            return None
        begin = row.begin(start)
        each = row.begin(start + period) - begin
        makers = row.makers[begin : begin + rounds * each].reshape(rounds, each)
        slots = row.slots[begin : begin + rounds * each].reshape(rounds, each)
        moving = makers[1] >= start  # made in this round or the one before
        carried = moving & (makers[1] < start + period)
        expected = makers[1] + np.where(moving, period, 0) * np.arange(-1, rounds - 1)[:, None]
        right = ((makers == expected) & (slots == slots[1])).all(axis=1)
        right[0] = True
        if not right.all():
            return self._checked(start, period, int(np.argmin(right)), last_use)
        fixed = ~carried
        if (makers[0] != expected[0])[fixed].any() or (slots[0] != slots[1])[fixed].any():
            return None
        if (makers[0][carried] >= start).any():
            return None
        end = start + rounds * period
        loop = Loop([row.items[first : first + period] for first in range(start, end, period)])
        for index in np.flatnonzero(carried).tolist():
            maker, slot = int(makers[1][index]), int(slots[1][index])
            made = list(results_of(row.items[maker], 0))[slot]
            reference = self.row.source(begin + index)
            initial = self._maker(reference)
            if initial < 0 or loop.initial.setdefault(made, initial) != initial:
                return None
            loop.carried[reference] = made
        later = np.flatnonzero(last_use[start : end - period] >= end) % period
        for offset in np.unique(later).tolist():
            item = row.items[start + offset]
            if isinstance(item, Loop) or self._key(item) in self._single:
                return None  # lists of lists are not printed
            loop.collected.add(item)
        return loop

    def _maker(self, reference: Reference) -> int:
        step, number = reference
        return int(self._steps.makers[self._steps.begin(step) + number])

    # -- the next pass ---------------------------------------------------------------------------------------

    def replace(self, loops: Sequence[tuple[int, int, Loop]]) -> None:
        """Replace the items of each loop by the loop."""
        items: list[Item] = []
        position = 0
        for start, size, loop in loops:
            self._set_key(loop)
            items += [*self.row.items[position:start], loop]
            position = start + size
        items += self.row.items[position:]
        if len(items) > _MOST_ITEMS:
            self.row.items = items
            return
        self._locations = _locations_of(items)
        keys, ends, makers, slots, sources = [], [], [], [], []
        for item in items:
            keys.append(self._key(item))
            for reference in self._outer(item):
                maker = self._maker(reference)
                maker_index, slot = self._locations.get(maker, (-2 - maker, 0))
                makers.append(maker_index)
                slots.append(slot)
                sources.append(reference)
            ends.append(len(makers))
        self.row = Row(items, _array(keys), _array(ends), _array(makers), _array(slots), sources)

    def _set_key(self, loop: Loop) -> None:
        """Set the loop's key, which says what it does, and its references to results outside."""
        body = loop.rounds[0]
        locations = _locations_of(body)
        firsts = {
            made: slot for slot, made in enumerate(step for item in body for step in results_of(item, 0))
        }
        outer: list[Reference] = []
        pattern: list[Hashable] = []
        for item in body:
            pattern.append(self._key(item))
            for reference in self._outer(item):
                location = locations.get(self._maker(reference))
                if location is None:
                    outer.append(reference)
                    location = firsts.get(loop.carried.get(reference, -1), -1), -1
                pattern.append(location)
        loop.outer = outer
        loop.key = len(loop.rounds), tuple(pattern), id(loop) if loop.collected else 0

    def _key(self, item: Item) -> int:
        if isinstance(item, int):
            return int(self._steps.keys[item])
        return self._loop_keys.setdefault(item.key, -1 - len(self._loop_keys))

    def _outer(self, item: Item) -> Sequence[Reference]:
        if isinstance(item, int):
            count = self._steps.begin(item + 1) - self._steps.begin(item)
            return [(item, number) for number in range(count)]
        return item.outer


def _locations_of(items: Sequence[Item]) -> dict[int, Reference]:
    return {
        step: (index, slot)
        for index, item in enumerate(items)
        for slot, step in enumerate(results_of(item, -1))
    }


def _array(numbers: Sequence[int]) -> Numbers:
    return np.asarray(numbers, np.int64)
