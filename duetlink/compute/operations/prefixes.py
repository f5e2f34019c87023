"""Where a program may be cut in two, so that its first part need not be done again for another program.

Theory. A prefix of a program's steps is a program itself. If all that the rest of them uses of it is the
result of its last step, and that was frozen when exactly these steps had been run, then a run of the rest
that begins with the frozen value makes what a run of all makes: the same steps, in the same order, and no
others, are behind it. So whoever is shown a program is shown all that a frozen value in it was made by.

What is lost by freezing is shared memory. The rest names nothing of the prefix but its last result, so what
it writes to that is seen through that alone. Assets and values may be used by both parts, each part opening
them anew, as long as no step of the program writes: what is written into a view of one is seen through it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

from duetlink.compute.operations.canonical import Program
from duetlink.compute.operations.steps.kinds import CHANGES_FIRST, EVERYWHERE
from duetlink.compute.operations.steps.program import ASSET, VALUE

MOST_STEPS = 10_000  # of a program that is looked at, which takes some 50 ms

Assets = frozenset[tuple[str, int]]  # by name and revision


class Prefix(NamedTuple):
    """The first steps of a program, all that is used of which is what the last of them makes."""

    steps: int
    digest: bytes  # of these steps with their literals, seeds, modes, values and revisions, and of no others


def prefixes(program: Program) -> list[Prefix]:
    """All of a program, from the shortest to the longest, which may be the program itself."""
    found = program.slice
    if len(found) > MOST_STEPS:
        return []
    steps = json.loads(program.text)
    used = _used(program)
    last_use = _last_uses(program, used)
    last_open: dict[Hashable, int] = {}  # where what is opened is opened or used last
    for place, step in enumerate(steps):
        if (what := _opened(step)) is not None:
            last_open[what] = max(last_open.get(what, 0), last_use[place])
    kinds = [found.shapes[shape].kind for shape in found.steps]
    writes = max(kinds) >= CHANGES_FIRST
    made: list[Prefix] = []
    digest = hashlib.sha256()
    reach = open_reach = 0  # the places up to which results so far, and what is opened so far, are used
    for place, (step, kind) in enumerate(zip(steps, kinds, strict=True)):
        if kind == EVERYWHERE:
            break
        digest.update(json.dumps(step, separators=(",", ":")).encode())
        if step[0] == VALUE:
            digest.update(found.values[used[place][0]].digest.encode())
        digest.update(b"\n")
        if (what := _opened(step)) is not None:
            open_reach = max(open_reach, last_open[what])
            continue
        if found.results[place] and reach <= place and (open_reach <= place or not writes):
            made.append(Prefix(place + 1, digest.digest()))
        reach = max(reach, last_use[place])
    return made


class Beginning(NamedTuple):
    """All steps of a program, by which another is found to begin with them."""

    steps: int
    size_bytes: int
    digest: bytes
    values: tuple[str, ...]  # digests

    @classmethod
    def of(cls, program: Program) -> Beginning:
        head = memoryview(program.text)[:-1]
        return cls(len(program.slice), len(head), hashlib.sha256(head).digest(), _values(program))

    def begins(self, program: Program) -> bool:
        """Whether a program is longer, and has these steps first, to the letter."""
        text = program.text
        return (
            text[self.size_bytes : self.size_bytes + 1] == b","
            and _values(program)[: len(self.values)] == self.values
            and hashlib.sha256(memoryview(text)[: self.size_bytes]).digest() == self.digest
        )


def _values(program: Program) -> tuple[str, ...]:
    """Digests of its values, in the order in which steps open them."""
    return tuple(program.slice.values[number].digest for number in sorted(program.slice.values))


def divided(program: Program, steps: int) -> tuple[Assets, Assets]:
    """The assets of a prefix with this number of steps, and those that the rest of the program works with."""
    inside, rest = set(), set()
    last_use = _last_uses(program, _used(program))
    for place, step in enumerate(json.loads(program.text)):
        if step[0] == ASSET:
            name, revision = step[1]
            if place < steps:
                inside.add((name, revision))
            if last_use[place] >= steps:
                rest.add((name, revision))
    return frozenset(inside), frozenset(rest)


def _used(program: Program) -> list[Sequence[int]]:
    """By the place of each step, the numbers of the results that it names."""
    ends, references = program.slice.reference_ends, program.slice.references
    return [references[begin:end] for begin, end in zip((0, *ends[:-1]), ends, strict=True)]


def _last_uses(program: Program, used: Sequence[Sequence[int]]) -> list[int]:
    """By the place of each step, that of the last one that uses its result; its own where none does. What is
    asked for is used behind all of them.
    """
    made_at = {result: place for place, result in enumerate(program.slice.results) if result}
    found = list(range(len(used)))
    for place, numbers in enumerate(used):
        for number in numbers:
            if number in made_at:
                found[made_at[number]] = place
    for target in program.slice.targets:
        if target in made_at:
            found[made_at[target]] = len(used)
    return found


def _opened(step: Sequence[Any]) -> Hashable:
    """The name and revision of an asset, or the number of a value, that a step opens; None: nothing."""
    if step[0] == ASSET:
        name, revision = step[1]
        return name, revision
    return step[1][0] if step[0] == VALUE else None
