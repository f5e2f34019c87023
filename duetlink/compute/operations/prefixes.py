"""Finds where a program can be cut in two, so that the result of its first part can be reused by others.

Theory. A prefix of a program's steps is a program itself. Suppose that the rest uses only one result of it,
that of its last step, and that this result was frozen after exactly these steps had run. Then a run of the
rest that starts with the frozen value computes what a full run computes: by the same steps, in the same
order, and no others. So the code of a program shows everything that a frozen value in it was made by.

Freezing loses shared memory. The rest names nothing of the prefix but its last result, so a write to that is
visible through it alone. Assets and values may be used in both parts, each part opening them again, as long
as no step of the program writes: a write to a view of an asset would be visible through the asset.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

from duetlink.compute.operations.canonical import Program
from duetlink.compute.operations.steps.kinds import CHANGES_FIRST, EVERYWHERE
from duetlink.compute.operations.steps.program import ASSET, VALUE

MOST_STEPS = 10_000  # longer programs are not cut; this length takes some 50 ms

Assets = frozenset[tuple[str, int]]  # pairs of a name and a revision


class Prefix(NamedTuple):
    """The first steps of a program, of which later steps use only the result of the last one."""

    steps: int
    digest: bytes  # of exactly these steps with their literals, seeds, modes, values and revisions


def prefixes(program: Program) -> list[Prefix]:
    """Return all prefixes of a program, from the shortest to the longest, which may be the program itself."""
    found = program.slice
    if len(found) > MOST_STEPS:
        return []
    steps = json.loads(program.text)
    used = _used(program)
    last_use = _last_uses(program, used)
    last_open: dict[Hashable, int] = {}  # asset or value -> position of the last step that opens or uses it
    for position, step in enumerate(steps):
        if (what := _opened(step)) is not None:
            last_open[what] = max(last_open.get(what, 0), last_use[position])
    kinds = [found.shapes[shape].kind for shape in found.steps]
    writes = max(kinds) >= CHANGES_FIRST
    made: list[Prefix] = []
    digest = hashlib.sha256()
    reach = open_reach = 0  # last uses of all results, and of assets and values, so far
    for position, (step, kind) in enumerate(zip(steps, kinds, strict=True)):
        if kind == EVERYWHERE:
            break
        digest.update(json.dumps(step, separators=(",", ":")).encode())
        if step[0] == VALUE:
            digest.update(found.values[used[position][0]].digest.encode())
        digest.update(b"\n")
        if (what := _opened(step)) is not None:
            open_reach = max(open_reach, last_open[what])
            continue
        if found.results[position] and reach <= position and (open_reach <= position or not writes):
            made.append(Prefix(position + 1, digest.digest()))
        reach = max(reach, last_use[position])
    return made


class Beginning(NamedTuple):
    """All steps of a program, in a form that shows quickly if another program begins with them."""

    steps: int
    size_bytes: int
    digest: bytes
    values: tuple[str, ...]  # digests of the values that these steps open

    @classmethod
    def of(cls, program: Program) -> Beginning:
        head = memoryview(program.text)[:-1]
        return cls(len(program.slice), len(head), hashlib.sha256(head).digest(), _values(program))

    def begins(self, program: Program) -> bool:
        """Return True if a program is longer and begins with exactly these steps."""
        text = program.text
        return (
            text[self.size_bytes : self.size_bytes + 1] == b","
            and _values(program)[: len(self.values)] == self.values
            and hashlib.sha256(memoryview(text)[: self.size_bytes]).digest() == self.digest
        )


def _values(program: Program) -> tuple[str, ...]:
    """Return the digests of a program's values, in the order in which steps open them."""
    return tuple(program.slice.values[number].digest for number in sorted(program.slice.values))


def divided(program: Program, steps: int) -> tuple[Assets, Assets]:
    """Return the assets that the first `steps` steps use, and those that the rest uses."""
    inside, rest = set(), set()
    last_use = _last_uses(program, _used(program))
    for position, step in enumerate(json.loads(program.text)):
        if step[0] == ASSET:
            name, revision = step[1]
            if position < steps:
                inside.add((name, revision))
            if last_use[position] >= steps:
                rest.add((name, revision))
    return frozenset(inside), frozenset(rest)


def _used(program: Program) -> list[Sequence[int]]:
    """Return the numbers of the results that each step names, by its position."""
    ends, references = program.slice.reference_ends, program.slice.references
    return [references[begin:end] for begin, end in zip((0, *ends[:-1]), ends, strict=True)]


def _last_uses(program: Program, used: Sequence[Sequence[int]]) -> list[int]:
    """Return, for each step, the position of the last step that uses its result.

    It is the step's own position if no step does, and the number of steps for the requested result.
    """
    made_at = {result: position for position, result in enumerate(program.slice.results) if result}
    found = list(range(len(used)))
    for position, numbers in enumerate(used):
        for number in numbers:
            if number in made_at:
                found[made_at[number]] = position
    for target in program.slice.targets:
        if target in made_at:
            found[made_at[target]] = len(used)
    return found


def _opened(step: Sequence[Any]) -> Hashable:
    """Return the name and revision of the asset, or the index of the value, that a step opens; else None."""
    if step[0] == ASSET:
        name, revision = step[1]
        return name, revision
    return step[1][0] if step[0] == VALUE else None
