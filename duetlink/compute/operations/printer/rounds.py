"""Finds the literals that differ between the rounds of a loop, and describes them in the first round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from duetlink.compute.operations.printer.aliases import PRIMARY, PRODUCT, SUM, UNARY, Text
from duetlink.compute.operations.printer.literal import literal
from duetlink.compute.operations.printer.loops import Item, Loop
from duetlink.compute.operations.printer.outline import literals
from duetlink.compute.operations.steps.slice import Slice

_FEW = 8  # the most values that are all shown
_MOST_SHAPES = 100_000  # the most shapes that are compared


@dataclass(frozen=True, slots=True)
class Differences:
    """The differences of one step of a loop."""

    changing: dict[int, Text]  # index of a literal that differs -> its text
    words: tuple[str, ...]  # comments on those that follow no formula


def steps_like(items: Sequence[Item], found: dict[int, list[int]] | None = None) -> dict[int, list[int]]:
    """Map each step of the first item to the same step in all items and all rounds. The items do the same."""
    found = {} if found is None else found
    first = items[0]
    if isinstance(first, Loop):
        rounds = [part for item in items if isinstance(item, Loop) for part in item.rounds]
        for index in range(len(first.rounds[0])):
            steps_like([part[index] for part in rounds], found)
    else:
        found[first] = [item for item in items if isinstance(item, int)]
    return found


def differences(slice_: Slice, steps: Sequence[int], variable: str) -> Differences:
    """Compare steps that have one outline.

    With a `variable`, they are the rounds of one loop, and `variable` counts these.
    """
    shapes = [slice_.steps[step] for step in steps]
    distinct = dict.fromkeys(shapes)
    if len(distinct) == 1:
        return Differences({}, ())
    if len(distinct) > _MOST_SHAPES:
        return Differences({}, ("its literals differ in each round",))
    rows = {shape: literals(slice_.shapes[shape]) for shape in distinct}
    changing: dict[int, Text] = {}
    words = []
    for index, first in enumerate(rows[shapes[0]]):
        values = {_exact(row[index]): row[index] for row in rows.values()}
        if len(values) == 1:
            continue
        progress = _progress([rows[shape][index] for shape in shapes], variable) if variable else None
        changing[index] = progress or Text(literal(first), UNARY)
        if progress is None:
            words.append(_words(first, list(values.values())))
    return Differences(changing, tuple(words))


def _exact(value: Any) -> tuple[type, str]:
    return type(value), repr(value)


def _progress(values: Sequence[Any], variable: str) -> Text | None:
    """Return the values as a formula such as `3 * i + 1` or `3 * ((i + 2) % 10) + 1`; None if they
    have none.
    """
    if not all(type(value) is int for value in values):
        return None
    distinct = sorted(set(values))
    first, step = distinct[0], distinct[1] - distinct[0]
    if values[0] > values[1] and len(distinct) == len(values):
        first, step = values[0], values[1] - values[0]
    count = len(distinct)
    shift = (values[0] - first) // step
    if any(value != first + step * ((index + shift) % count) for index, value in enumerate(values)):
        return None
    counted = variable
    if shift or count < len(values):
        counted = f"({f'({variable} + {shift})' if shift else variable} % {count})"
    product = counted if step == 1 else f"-{counted}" if step == -1 else f"{step} * {counted}"
    if not first:
        return Text(product, PRIMARY if step == 1 else UNARY if step == -1 else PRODUCT)
    return Text(f"{product} {'+' if first > 0 else '-'} {abs(first)}", SUM)


def _words(first: Any, values: list[Any]) -> str:
    others = [value for value in values if _exact(value) != _exact(first)]
    if len(others) <= _FEW:
        return f"{', '.join(map(literal, others))} in place of {literal(first)}"
    shown = f"{', '.join(map(literal, others[:3]))}, …, {literal(others[-1])} in place of {literal(first)}"
    if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
        return f"{shown} ({len(values):,} different, {literal(min(values))} to {literal(max(values))})"
    return f"{shown} ({len(values):,} different)"
