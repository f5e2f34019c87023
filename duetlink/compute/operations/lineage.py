"""How a result was made: from which assets, by which operations, as code that a person reads, and as a
digest.
"""

from __future__ import annotations

import hashlib
import json
import sys
from array import array
from dataclasses import dataclass

from duetlink.compute.operations.code import code_of
from duetlink.compute.operations.effects import is_listed
from duetlink.compute.operations.literal import harmless
from duetlink.compute.operations.preparations import preparations_of
from duetlink.compute.operations.program import ASSET, VALUE
from duetlink.compute.operations.slice import Slice, slice_of
from duetlink.compute.operations.trace import Shape, Trace

_MAX_EXPRESSION = 60  # characters
_MAX_OPERATIONS = 1_000  # the lists have more, but nobody uses that many
# Among the names of operations: something was asked for by a name that no list has, or has failed, or there
# are more names than these. No list has an operation of this name.
UNKNOWN = "unknown"
_VERSION = b"duetlink lineage 1\n"


@dataclass(frozen=True, slots=True)
class Lineage:
    """Everything that a result may depend on is in it; it may name more."""

    assets: tuple[tuple[str, int], ...]  # name and revision, by first use
    operations: tuple[str, ...]  # of the lists, by name, see `operation_name`; and UNKNOWN
    steps: int  # operations, also the same one again
    code: str  # Python; its last line is the result
    digest: str  # SHA-256: the same for the same steps with the same literals and values, whatever their ids
    expression: str  # a line of at most 60 characters, to call the result by
    # digests of the preparations that its assets went through, and UNPREPARED
    preparations: tuple[str, ...] = ()


def lineage(trace: Trace, result: int, position: int) -> Lineage:
    """The lineage of the result of that id, by the batches before a position.

    Raises:
        LookupError: none of them makes it.
    """
    try:
        found = slice_of(trace, trace.node(result), trace.batch_ends[position])
    except LookupError:
        raise LookupError(f"no step makes result {result}") from None
    assets = dict.fromkeys(
        (shape.arguments[0], shape.arguments[1]) for shape in found.shapes if shape.operation == ASSET
    )
    operations = _operations(found)
    steps = sum(1 for number in found.steps if found.shapes[number].operation not in (ASSET, VALUE))
    code = code_of(found)
    return Lineage(
        tuple(assets),
        operations,
        steps,
        code,
        _digest(found),
        _expression(code, steps, [name for name, _ in assets]),
        preparations_of(found),
    )


def _operations(found: Slice) -> tuple[str, ...]:
    """Their names, sorted. The peer may ask for an operation by any text; nothing of that text is in them
    unless a list has it.
    """
    asked = {shape.operation for shape in found.shapes} - {ASSET, VALUE}
    listed = sorted({operation_name(operation) for operation in asked if is_listed(operation)})
    if found.failed or len(listed) > _MAX_OPERATIONS or not all(map(is_listed, asked)):
        return (*listed[:_MAX_OPERATIONS], UNKNOWN)
    return tuple(listed)


def operation_name(operation: str) -> str:
    """An operation as a person, and a pattern of a policy, names it: a method and an attribute by its bare
    name (`mean`, `T`; `grad=` where it is set), what is Python's own too (`getitem`, `add`, `len`), a
    library's function by its path, such as `numpy.mean`. Characters that cannot be seen are escaped.
    """
    if operation.startswith("@="):
        operation = f"{operation[2:]}="
    elif operation[0] in ".@":
        operation = operation[1:]
    else:
        operation = operation.removeprefix("operator.").removeprefix("builtins.")
    return harmless(operation)


def _expression(code: str, steps: int, assets: list[str]) -> str:
    if "\n" not in code and "#" not in code and len(code) <= _MAX_EXPRESSION:
        return code
    told = f"result of {steps:,} step{'s' if steps != 1 else ''} on "
    names = ", ".join(map(harmless, assets)) or "no asset"
    room = _MAX_EXPRESSION - len(told)
    return told + (names if len(names) <= room else names[: room - 1] + "…")


def _digest(found: Slice) -> str:
    """Shapes, values and numbers, each by its first appearance, so that nothing in it depends on ids."""
    digest = hashlib.sha256(_VERSION)
    for content in (
        [_shape_digest(shape) for shape in found.shapes],
        [[number, value.digest] for number, value in found.values.items()],
        [len(found.steps), len(found.references), found.target, sorted(found.failed)],
    ):
        digest.update(json.dumps(content, separators=(",", ":")).encode() + b"\n")
    for numbers in (found.steps, found.results, found.references):
        digest.update(_little_endian(numbers))
    return digest.hexdigest()


def _shape_digest(shape: Shape) -> str:
    content = [shape.operation, shape.arguments, shape.keywords, shape.gradients]
    return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()


def _little_endian(numbers: array[int]) -> bytes:
    if sys.byteorder == "big":  # pragma: no cover
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()
