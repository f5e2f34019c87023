"""A requested program as a value: the steps that make one result, in one canonical form.

The scientist's side cuts it out of the trace and sends it with the request; the owner's side prints, digests,
judges and runs this very object. The same notebook code gives the same program, whatever was tried in
between: results are numbered by the position of their step, and slicing is repeated until no step falls away.
One slice is not enough: a slice has fewer relations between results than the trace it was cut from, so the
next slice may be shorter.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

from duetlink.base.quantities import size_text
from duetlink.compute.operations.lineage import Lineage, lineage
from duetlink.compute.operations.steps import body
from duetlink.compute.operations.steps.effects import worst_effect
from duetlink.compute.operations.steps.program import ASSET, VALUE, Step
from duetlink.compute.operations.steps.slice import Slice, slice_of
from duetlink.compute.operations.steps.trace import LoggedValue, Shape, Trace
from duetlink.data.values.told import told as told_by
from duetlink.errors import RemoteProtocolError

DIGEST_VERSION = "v2:"  # prefix of the digests of programs and functions
_VERSION = b"duetlink program 2\n"
_MAX_WORDS = 200  # characters
_MOST_DESCRIBED = 1_000  # values described by their content; code names fewer
# memory of a list or dict, held two or three times: in the steps, the slice and the code
_BRACKET_BYTES = 200
_MOST_SLICES = 2  # further slices of received steps: a sender has sliced until no step falls away


class Value(NamedTuple):
    """A value of the scientist's that a program uses."""

    content: memoryview | bytes
    kind: str  # in the sender's words
    detail: str


@dataclass(frozen=True, eq=False)
class Program:
    """The steps that make one result. Immutable."""

    slice: Slice
    text: bytes  # the steps as JSON
    target: int  # the position, from 1, of the step whose result is requested
    values: tuple[Value, ...]
    digest: str  # equal for equal steps with equal literals and values; descriptions do not count

    @classmethod
    def recorded(cls, trace: Trace, id_: int, bodies: Mapping[str, Value]) -> Self:
        """Cut out the program of a recorded result, from all steps up to now. `bodies` has the values by
        digest.

        Raises:
            LookupError: no step makes this result.
        """
        found = slice_of(trace, trace.node(id_))
        return cls._sliced(found, bodies, None, trace.effects)

    @classmethod
    def read(cls, received: memoryview, effects: Callable[[str], str] = worst_effect) -> Self:
        """Read a program that the peer sent, which may be any bytes.

        Raises:
            RemoteProtocolError, LimitExceeded: it is no valid program.
        """
        parsed = body.read(received)
        values = [
            Value(value, kind, detail)
            for value, (kind, detail) in zip(parsed.values, parsed.words, strict=True)
        ]
        return cls.of_steps(parsed.steps, parsed.target, values, effects)

    @classmethod
    def of_steps(
        cls,
        steps: Sequence[Any],
        target: int,
        values: Sequence[Value] = (),
        effects: Callable[[str], str] = worst_effect,
    ) -> Self:
        """Return the program of canonical steps, without steps that do not contribute to the target.

        Raises:
            RemoteProtocolError: no steps make the target, or repeated slicing still removes steps.
            LimitExceeded: they would take too much memory.
        """
        logged = [_described(position, value) for position, value in enumerate(values)]
        trace = Trace(effects, may_learn=False)
        trace.add_canonical(steps, logged)
        try:
            found = slice_of(trace, trace.node(target))
        except LookupError:
            raise RemoteProtocolError(f"no step makes the requested result {target}") from None
        bodies = {described.digest: value for described, value in zip(logged, values, strict=True)}
        return cls._sliced(found, bodies, len(steps), effects)

    @classmethod
    def _sliced(
        cls,
        found: Slice,
        bodies: Mapping[str, Value],
        steps: int | None,
        effects: Callable[[str], str] = worst_effect,
    ) -> Self:
        """Slice until no step falls away, and compute the digest.

        `steps` is the number of steps that `found` was cut from if these were canonical themselves
        (received), else None. A received program may be sliced _MOST_TURNS times more: each slice may take as
        long as the first one and remove a single step. A recorded program is sliced as often as needed.
        """
        slices_left = math.inf if steps is None else _MOST_SLICES
        while True:
            text, (target,), logged = _canonical(found)
            if steps == len(found):
                break
            if not slices_left:
                raise RemoteProtocolError(
                    f"a program of {len(found):,} steps still has steps that its result does not need; send "
                    "a program that is sliced until no step falls away"
                )
            slices_left -= 1
            trace = Trace(effects, may_learn=False)
            trace.add_canonical(json.loads(text), logged)
            steps, found = len(found), slice_of(trace, trace.node(target))
        digest = hashlib.sha256(_VERSION)
        digest.update(f"{target}\n".encode())
        digest.update(text)
        for value in logged:
            digest.update(f"\n{value.digest}".encode())
        values = tuple(bodies[value.digest] for value in logged)
        return cls(found, text, target, values, DIGEST_VERSION + digest.hexdigest())

    @property
    def segments(self) -> list[memoryview]:
        """The program as bytes, in pieces: what is sent, and what a room gets. See `body.py`."""
        contents = [value.content for value in self.values]
        words = [body.Words(value.kind, value.detail) for value in self.values]
        pieces, _ = body.write(self.target, self.text, contents, words)
        return [memoryview(piece) for piece in pieces if len(piece)]

    @cached_property
    def held_bytes(self) -> int:
        """The approximate memory of the program with its steps as objects, in bytes."""
        brackets = self.text.count(b"[") + self.text.count(b"{")
        steps_bytes = 8 * len(self.text) + _BRACKET_BYTES * brackets
        return steps_bytes + sum(len(value.content) for value in self.values)

    @property
    def assets(self) -> list[tuple[str, int]]:
        """Names and revisions of the program's assets, in the order of first use."""
        return list(self.lineage.assets)

    @cached_property
    def lineage(self) -> Lineage:
        """The program as a person sees it and as policies judge it."""
        return lineage(self.slice, self.digest)

    def operation(self, step: int) -> str:
        """Return the operation of a step, counted from 1; empty if there is no such step."""
        return self.slice.shapes[self.slice.steps[step - 1]].operation if 0 < step <= len(self.slice) else ""

    @cached_property
    def steps(self) -> list[Step]:
        """The steps with ids. A step whose result no other step uses has the id 0."""
        found = []
        for position, (raw, result) in enumerate(
            zip(json.loads(self.text), self.slice.results, strict=True), 1
        ):
            step = body.step_of(raw)
            found.append(Step(position if result else 0, step.operation, step.arguments, step.keywords))
        return found


def compacted(trace: Trace) -> Trace:
    """Return a trace without the steps that no remaining result depends on."""
    alive = trace.alive
    made = trace.successor()
    if alive:
        found = slice_of(trace, *map(trace.node, alive))
        text, positions, logged = _canonical(found)
        made.add_canonical(json.loads(text), logged)
        made.rename(positions, alive)
    return made


def _canonical(found: Slice) -> tuple[bytes, list[int], list[LoggedValue]]:
    """Return the steps as JSON, the positions of the targets, and the values in the order of their index."""
    writers = [
        _CanonicalWriter(shape.operation, shape.arguments, shape.keywords, _modes(shape))
        for shape in found.shapes
    ]
    positions: list[int] = [0] * (len(found) * 3 + 2)  # positions of results, by their numbers
    values: dict[int, int] = {}
    logged: list[LoggedValue] = []
    lines: list[str] = []
    begin = 0
    references, draws = found.references, found.draws
    for position, (shape, result, end) in enumerate(
        zip(found.steps, found.results, found.reference_ends, strict=True)
    ):
        writer = writers[shape]
        used = references[begin:end]
        begin = end
        if writer.operation == ASSET:
            lines.append(writer.whole)
        elif writer.operation == VALUE:
            number = used[0]
            if number not in values:
                values[number] = len(logged)
                logged.append(found.values[number])
            lines.append(f'["{VALUE}",[{values[number]}]]')
        else:
            draw = draws.get(position)
            text = writer.drawing if draw is not None else writer.plain
            if used:
                text %= tuple([positions[number] for number in used])
            lines.append(
                text if draw is None else f"{text}{json.dumps(list(draw), separators=(',', ':'))}}}]"
            )
        if result:
            positions[result] = position + 1
    return f"[{','.join(lines)}]".encode(), [positions[target] for target in found.targets], logged


def _modes(shape: Shape) -> str:
    """Return the modes of a shape as JSON, without the draw, which differs between steps of one shape."""
    found = [] if shape.gradients else ['"grad":false']
    if shape.settings:
        found.append(f'"settings":{_dumped(dict(shape.settings))}')
    return ",".join(found)


class _CanonicalWriter:
    """Writes the steps of one shape, as templates in which `%d` stands for the position of each named
    result.
    """

    def __init__(
        self, operation: str, arguments: Sequence[Any], keywords: Mapping[str, Any], modes: str
    ) -> None:
        self.operation = operation
        self.whole = f"[{_dumped(operation)},{_dumped(list(arguments))}]"
        self._names = 0
        inner = f"{_escaped(operation)},{self._filled_all(arguments)}"
        named = (
            "{" + ",".join(f"{_escaped(key)}:{self._filled(item)}" for key, item in keywords.items()) + "}"
        )
        if modes:
            plain = f"[{inner},{named},{{{modes}}}]"
        else:
            plain = f"[{inner},{named}]" if keywords else f"[{inner}]"
        # a template without `%d` is never formatted, so its escapes are undone
        self.plain = plain if self._names else plain.replace("%%", "%")
        drawing = f'[{inner},{named},{{{modes}{"," if modes else ""}"draw":'
        self.drawing = drawing if self._names else drawing.replace("%%", "%")

    def _filled_all(self, parts: Sequence[Any]) -> str:
        return f"[{','.join(map(self._filled, parts))}]"

    def _filled(self, argument: Any) -> str:
        if type(argument) is not list:
            return _escaped(argument)
        if argument and type(argument[0]) is int:
            self._names += 1
            return "[%d]"
        return self._filled_all(argument)


def _dumped(plain: Any) -> str:
    return json.dumps(plain, separators=(",", ":"))


def _escaped(plain: Any) -> str:
    return _dumped(plain).replace("%", "%%")


def _described(position: int, value: Value) -> LoggedValue:
    """Describe a received value: by its content if its bytes are readable, else by the sender's
    words, marked so.
    """
    content = told_by(value.content) if position < _MOST_DESCRIBED else None
    kind, detail = (value.kind, value.detail) if content is None else (content.kind, content.detail)
    words = f"{kind[:_MAX_WORDS]} {detail[:_MAX_WORDS]}".strip()
    if content is None:
        words = f"{size_text(len(value.content))}, said to be {words or 'nothing'}"
    return LoggedValue(words, hashlib.sha256(value.content).hexdigest())
