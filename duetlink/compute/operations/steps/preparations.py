"""Which preparations a result went through, from its slice: what a policy may ask for by `prep`.

Theory. An asset that is used otherwise than as the frame of a preparation counts as unprepared, wherever the
slice says so; and each preparation counts, also one that has failed, or is of what the peer sent. So
whatever a peer adds can add to what is found, and hides nothing of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from duetlink.compute.operations.steps.program import ASSET
from duetlink.compute.operations.steps.slice import Slice
from duetlink.compute.operations.steps.trace import Shape
from duetlink.compute.prep.frames import PREPARE
from duetlink.data.prep.spec import PrepSpec
from duetlink.errors import DuetError

UNPREPARED = ""  # beside the digests: an asset was used as it is, or nobody can tell how it was prepared
_MOST = 100  # preparations that are read, each of up to 1 MiB; more leave the result unprepared


def preparations_of(found: Slice) -> tuple[str, ...]:
    """Digests of all preparations, sorted, UNPREPARED first; empty where it is made from no asset."""
    assets = {
        result
        for shape, result in zip(found.steps, found.results, strict=True)
        if found.shapes[shape].operation == ASSET and result
    }
    if not assets:
        return ()
    digests: dict[int, str] = {}  # by shape
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
            continue  # a preparation that can be read uses its frame only
        if not assets.isdisjoint(used):
            preparations.add(UNPREPARED)
    return tuple(sorted(preparations))


def _digest(shape: Shape) -> str:
    """Of the preparation of a step `prepare(frame, spec)`, as the room reads it."""
    arguments: Sequence[object] = shape.arguments
    if len(arguments) != 2 or shape.keywords or arguments[0] != [0] or type(arguments[1]) is not str:
        return UNPREPARED
    try:
        return PrepSpec.from_json(arguments[1]).digest
    except DuetError:
        return UNPREPARED
