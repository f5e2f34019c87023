"""Finds where the printed code uses each result of a slice, and so which results need a name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from duetlink.compute.operations.printer.loops import Item, Loop, Reference, results_of
from duetlink.compute.operations.printer.outline import outline
from duetlink.compute.operations.printer.repetition import fold
from duetlink.compute.operations.steps.kinds import CHANGES_FIRST
from duetlink.compute.operations.steps.program import ASSET, VALUE
from duetlink.compute.operations.steps.slice import Slice

CodePosition = tuple[int, int]  # the number of a block, and the index of an item in it
Meaning = tuple[int, int]  # the number of a result, and its round: an index, or one of the next line
HERE, BEFORE, ALL = -1, -2, -3  # this round, the round before, the list of all rounds


class Uses:
    """The items of the printed code, and the uses of each result. Of loops, only the first rounds are
    counted.

    A result has the number that it has in the first round.
    """

    def __init__(self, slice_: Slice) -> None:
        self._slice = slice_
        # results that several steps define (a room keeps one); with any, loops are not searched
        self.twice = frozenset(
            number for number, count in Counter(slice_.results).items() if number and count > 1
        )
        self.items: Sequence[Item] = range(len(slice_))
        if not self.twice:
            makers = _makers(slice_)
            made_by = [makers.get(number, -1) for number in slice_.references]
            keys = _keys(slice_)
            values = {
                key
                for key, shape in zip(keys, slice_.steps, strict=True)
                if slice_.shapes[shape].operation == VALUE
            }
            last = [makers.get(slice_.target, -1)]
            self.items = fold(keys, slice_.reference_ends, made_by, last, values, _openings(slice_))
        self.counts: Counter[int] = Counter()  # uses of each result, by its number
        self.user: dict[int, CodePosition] = {}  # last user of a result; the loop, if it is an initial value
        self.kept: set[int] = set()  # results that need a name, since another round uses them
        # result that a round takes from the one before -> the step that makes the next one
        self.remade: dict[int, int] = {}
        self.rounds: dict[int, int] = {}  # collected result -> number of rounds
        # result of a later round -> result of the first round, round, loop
        self._elements: dict[int, tuple[int, int, Loop]] = {}
        self._same: dict[int, int] = {}  # result of the last round -> result of the first round
        self._blocks: dict[int, int] = {}  # `id` of a loop -> number of its block
        for item in self.items:
            self._note_loops(item)
        self._count(self.items, 0, ())
        self._use(*self.meant(slice_.target, ()), (0, len(self.items)))

    def references(self, step: int) -> Sequence[int]:
        """Return the numbers of the results that a step names."""
        ends = self._slice.reference_ends
        return self._slice.references[ends[step - 1] if step else 0 : ends[step]]

    def block(self, loop: Loop) -> int:
        """Return the number of the block that a loop repeats; the whole code is block 0."""
        return self._blocks[id(loop)]

    def resolved(self, reference: Reference, loops: Sequence[Loop]) -> Meaning:
        """Return the meaning of a reference within these loops, outermost first."""
        for loop in reversed(loops):
            made = loop.carried.get(reference)
            if made is not None:
                return self._slice.results[made], BEFORE
        step, index = reference
        return self.meant(self.references(step)[index], loops)

    def meant(self, number: int, loops: Sequence[Loop]) -> Meaning:
        """Return the meaning of a result's number within these loops."""
        element = self._elements.get(number)
        if element is not None:
            first, round_, loop = element
            if loop not in loops and round_ < self.rounds[first] - 1:
                return first, round_
        return self._same.get(number, number), HERE

    def is_read_late(self, loop: Loop, made: int) -> bool:
        """Return True if a round still uses the previous round's result after it has made its own."""
        return any(reference[0] > made for reference, result in loop.carried.items() if result == made)

    def _note_loops(self, item: Item) -> None:
        if isinstance(item, int):
            return
        self._blocks[id(item)] = len(self._blocks) + 1
        results = self._slice.results
        for part in item.rounds[0]:
            self._note_loops(part)
        for first, last in zip(results_of(item, 0), results_of(item, -1), strict=True):
            if results[last]:
                self._same[results[last]] = results[first]
        for made in item.carried.values():
            self.kept.add(results[made])
            self.remade[results[made]] = made
        for offset, first_step in enumerate(item.rounds[0]):
            if isinstance(first_step, int) and first_step in item.collected:
                number = results[first_step]
                self.kept.add(number)
                self.rounds[number] = len(item.rounds)
                for round_, items in enumerate(item.rounds):
                    step = items[offset]
                    assert isinstance(step, int)
                    self._elements[results[step]] = number, round_, item

    def _count(self, items: Sequence[Item], block: int, loops: tuple[Loop, ...]) -> None:
        for index, item in enumerate(items):
            if isinstance(item, int):
                for number in range(len(self.references(item))):
                    self._use(*self.resolved((item, number), loops), (block, index))
                continue
            for reference in {made: reference for reference, made in item.carried.items()}.values():
                self._use(*self.resolved(reference, loops), (block, index))
            self._count(item.rounds[0], self.block(item), (*loops, item))

    def _use(self, number: int, which: int, position: CodePosition) -> None:
        if which == HERE:
            self.counts[number] += 1
            self.user[number] = position


def steps_of(item: Item) -> Iterator[int]:
    """Yield the steps of an item that are printed."""
    return results_of(item, 0)


def changes(slice_: Slice, item: Item) -> bool:
    """Return True if an item changes an object, so that other expressions must not move past it."""
    return any(slice_.shapes[slice_.steps[step]].kind >= CHANGES_FIRST for step in steps_of(item))


def _keys(slice_: Slice) -> list[int]:
    numbers: dict[str, int] = {}
    keys = [
        numbers.setdefault(repr(shape) if shape.operation == ASSET else outline(shape), len(numbers))
        for shape in slice_.shapes
    ]
    # the key tells if the result is needed, which may differ between rounds
    return [
        2 * keys[shape] + (result > 0) for shape, result in zip(slice_.steps, slice_.results, strict=True)
    ]


def _makers(slice_: Slice) -> dict[int, int]:
    """Map each result to the step that makes it; a value is made by the first step that opens it."""
    made = {number: step for step, number in enumerate(slice_.results) if number}
    begin = 0
    for step, end in enumerate(slice_.reference_ends):
        for number in slice_.references[begin:end]:
            if number in slice_.values:
                made.setdefault(number, step)
        begin = end
    return made


def _openings(slice_: Slice) -> set[int]:
    """Return the steps that a round is likely to begin with: those where gradients are recorded again."""
    recorded = [shape.gradients for shape in slice_.shapes]
    steps = slice_.steps
    return {step for step in range(1, len(steps)) if recorded[steps[step]] and not recorded[steps[step - 1]]}
