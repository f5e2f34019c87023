"""Finds the preparations that a result went through, from its slice: what a policy tests with `prep`.

Theory. An asset counts as unprepared as soon as one step of the slice uses it other than as the frame of a
preparation. Every preparation counts, even one that failed or that prepared a value of the peer's. So a peer
can add steps to get more entries, but no step hides an entry.
"""

from __future__ import annotations

from collections.abc import Sequence

from duetlink.compute.operations.steps.program import ASSET
from duetlink.compute.operations.steps.slice import Slice
from duetlink.compute.operations.steps.trace import Shape
from duetlink.compute.prep.frames import PREPARE
from duetlink.data.prep.spec import PrepSpec
from duetlink.errors import DuetError

UNPREPARED = ""  # in place of a digest: an asset was used unprepared, or its preparation is unreadable
_MOST = 100  # preparations that are parsed, each of up to 1 MiB; further ones count as UNPREPARED


def preparations_of(found: Slice) -> tuple[str, ...]:
    """Return the sorted digests of all preparations, UNPREPARED first; empty if no asset was used."""
    assets = {
        result
        for shape, result in zip(found.steps, found.results, strict=True)
        if found.shapes[shape].operation == ASSET and result
    }
    if not assets:
        return ()
    digests: dict[int, str] = {}  # shape -> digest
    for number, shape in enumerate(found.shapes):
        if shape.operation == PREPARE:
            digests[number] = _digest(shape) if len(digests) < _MOST else UNPREPARED
    preparations = set(digests.values())
    if found.target in assets:
        preparations.add(UNPREPARED)
    begin = 0
    for number, end in zip(found.steps, found.reference_ends, strict=True):
        used = found.references[begin:end]
        begin = end
        if found.shapes[number].operation == ASSET or number in digests:
            continue  # a preparation uses nothing but its frame
        if not assets.isdisjoint(used):
            preparations.add(UNPREPARED)
    return tuple(sorted(preparations))


def _digest(shape: Shape) -> str:
    """Return the digest of the preparation in a step `prepare(frame, spec)`; UNPREPARED if the spec
    is malformed.
    """
    arguments: Sequence[object] = shape.arguments
    if len(arguments) != 2 or shape.keywords or arguments[0] != [0] or type(arguments[1]) is not str:
        return UNPREPARED
    try:
        return PrepSpec.from_json(arguments[1]).digest
    except DuetError:
        return UNPREPARED
