"""Row stability: checks that each row of a column comes from exactly one row of one asset.

Theory. The noise of a statistic hides one row of the column that it is made from. It hides one row of the
asset only if adding or removing a row of the asset adds or removes at most one row of the column and changes
nothing else. So each row of the column must come from one row of the asset, independently of the others, and
no row may come twice. Each step from the asset to the column must be known to have this property: the rules
list what is accepted, and everything else is refused.

The public facts, equal for all neighbours, are those that `table.py` keeps of an asset: its library, and the
names and kinds of its columns. For all such data the rules give the same kinds, and fail either always or
never.

The room recomputes the column from the asset as it was shared, by these steps and no others. Writes by other
steps of the program therefore have no effect on it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from duetlink.compute.operations.allow_lists.allowed import BACKWARD, IN_PLACE, LOCAL, METADATA, Allowed
from duetlink.compute.operations.steps.program import ASSET, DROP, GRAD, MAX_DEPTH, VALUE, Step, references
from duetlink.compute.privacy.advice import advice
from duetlink.compute.privacy.call import ColumnOperation, Named, Unstable, check_rows
from duetlink.compute.privacy.rowwise import rule_of
from duetlink.compute.privacy.selection import selection_of
from duetlink.compute.privacy.table import (
    NUMBERS,
    NUMPY,
    PANDAS,
    POLARS,
    TORCH,
    Column,
    Matrix,
    PrivateTable,
    Rows,
    Table,
)
from duetlink.errors import OperationRefused, RemoteProtocolError

Schemas = Mapping[tuple[str, int], Table]  # by name and revision of the asset

_CLASSES = {
    (NUMPY, Column): "ndarray",
    (NUMPY, Matrix): "ndarray",
    (PANDAS, Column): "Series",
    (PANDAS, PrivateTable): "DataFrame",
    (POLARS, Column): "Series",
    (POLARS, PrivateTable): "DataFrame",
    (TORCH, Column): "Tensor",
    (TORCH, Matrix): "Tensor",
}


@dataclass(frozen=True, slots=True)
class Route:
    """The row-stable steps from an asset to a column."""

    asset: str
    revision: int
    column: Column
    target: int
    steps: tuple[Step, ...]  # from the asset to the column, in order: they suffice to compute it again
    filters: int  # the number of steps that choose rows


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why no private statistic can be made, for people: the step, and what to do instead."""

    words: str
    step: Step | None = None


def row_stable(steps: Sequence[Step], target: int, allowed: Allowed, schemas: Schemas) -> Route | Refusal:
    """Check that the result `target` of these steps, in this order, is a column that may get a statistic.

    Returns the route to it, or the reason why not. `schemas` holds the public facts of the assets that have a
    budget; nothing here looks at data.
    """
    made = _follow(steps, target, allowed, schemas)
    if isinstance(made, Refusal):
        return Refusal(f"no private statistic can be made of result {target}: {made.words}", made.step)
    column, route = made
    if not isinstance(column, Column):
        last = steps[route[-1]]
        return Refusal(
            f"no private statistic can be made of result {target}: step {last.id}, {last.operation}: it "
            "makes a whole table: a private statistic is made from one column of it",
            last,
        )
    rows = column.rows
    kept = tuple(steps[position] for position in route)
    return Route(rows.asset, rows.revision, column, target, kept, len(rows.filters))


def source_rows(
    steps: Sequence[Step], target: int, allowed: Allowed, schemas: Schemas
) -> tuple[Rows, tuple[Step, ...]] | Refusal:
    """Return the asset rows that the result `target`, a table or a column, consists of, and the steps to it.

    Each of its rows is made from one row of the asset and nothing else. Two results with equal `Rows` have
    the same rows in the same order. Returns a Refusal if a step is not row-stable.
    """
    made = _follow(steps, target, allowed, schemas)
    if isinstance(made, Refusal):
        return made
    table, route = made
    return table.rows, tuple(steps[position] for position in route)


def _follow(
    steps: Sequence[Step],
    target: int,
    allowed: Allowed,
    schemas: Schemas,
) -> tuple[Table, list[int]] | Refusal:
    """Return the public facts of a result, and the positions in `steps` of the steps that lead to it."""
    positions: dict[int, int] = {}
    twice: set[int] = set()
    for position, step in enumerate(steps):
        if step.id and step.operation != DROP:
            if step.id in positions:
                twice.add(step.id)
            positions.setdefault(step.id, position)
    at: Step | None = None
    try:
        route = _route(steps, target, positions, twice)
        tables: dict[int, Table] = {}
        for position in route:
            at = steps[position]
            tables[at.id] = _table_after(at, position, tables, allowed, schemas)
    except Unstable as unstable:
        where = f"step {at.id}, {at.operation}: " if at is not None else ""
        return Refusal(f"{where}{unstable}", at)
    return tables[target], route


def _route(steps: Sequence[Step], target: int, positions: Mapping[int, int], twice: set[int]) -> list[int]:
    """Return the positions of the steps that lead to a result, in order. Raises Unstable."""
    found: set[int] = set()
    waiting = [(target, len(steps))]
    while waiting:
        id_, before = waiting.pop()
        if id_ in twice:  # the room keeps one of them, and this function does not know which
            raise Unstable(f"the number {id_} was given to two results; make it again under a new one")
        position = positions.get(id_, before)
        if position >= before:
            raise Unstable(f"there is no result {id_}")
        if position not in found:
            found.add(position)
            waiting += [(mention, position) for mention in _references(steps[position])]
    return sorted(found)


def _references(step: Step) -> list[int]:
    try:
        return references(step)
    except RemoteProtocolError as error:
        raise Unstable(str(error)) from None


def _table_after(
    step: Step, position: int, tables: Mapping[int, Table], allowed: Allowed, schemas: Schemas
) -> Table:
    """Return the public facts of a step's result, given those of earlier results. Raises Unstable."""
    if step.operation == ASSET:
        return _asset(step, schemas)
    if step.operation in (VALUE, GRAD, DROP):
        raise Unstable(
            "a value that you sent has rows of its own, and how they pair with the asset's depends on the "
            "number of rows there; write numbers and texts into the operation itself"
        )
    items = [_decode(argument, tables, 0) for argument in step.arguments]
    keywords = {name: _decode(argument, tables, 0) for name, argument in step.keywords.items()}
    given = [item for item in (*items, *keywords.values()) if isinstance(item, Table)]
    if not given and step.operation.startswith("polars."):
        raise Unstable(advice(step.operation))
    if not given:
        raise Unstable("it is made from no asset; write numbers and texts into the operation itself")
    first = given[0]
    if step.operation.startswith((".", "@")) and items[0] is not first:
        raise Unstable("its first argument is not the data")
    selection = selection_of(step.operation, first.library)
    if selection is not None:
        if items[0] is not first:
            raise Unstable("its first argument, from which it selects, is not the data")
        if not step.operation.startswith("@"):  # an attribute is a column's name, which no list contains
            _check_listed(step.operation, first, allowed)
        return selection(first, items[1:], keywords, position)
    rule = rule_of(step.operation, first.library)
    if rule is None:
        raise Unstable(advice(step.operation))
    for table in given:
        if not isinstance(table, Column):
            raise Unstable("its argument is a whole table: take a column of it before")
        check_rows(first, table)
    _check_listed(step.operation, first, allowed)
    made = rule(ColumnOperation(first.library, items, keywords))
    column = made if isinstance(made, Column) else Column(first.library, made, first.rows)
    signless = column.signless or any(isinstance(table, Column) and table.signless for table in given)
    return replace(column, signless=signless and column.kind in NUMBERS)


def _asset(step: Step, schemas: Schemas) -> Table:
    arguments = step.arguments
    if len(arguments) == 2 and type(arguments[0]) is str and type(arguments[1]) is int and not step.keywords:
        name, revision = arguments
        if (name, revision) in schemas:
            table = schemas[name, revision]
            return replace(table, rows=replace(table.rows, asset=name, revision=revision, filters=()))
    raise Unstable("its owner has not opened this asset to private statistics")


def _decode(argument: Any, tables: Mapping[int, Table], depth: int) -> Any:
    """Decode an argument of a step (`operations/steps/program.py`) to a table or to constants."""
    if type(argument) is not list:
        if argument is None or type(argument) in (bool, int, float, str):
            return argument
    elif argument and depth <= MAX_DEPTH:
        tag, *parts = argument
        if type(tag) is int and not parts and not depth:
            return tables[tag]
        if tag == "c" and len(parts) == 1 and type(parts[0]) is str:
            return Named(parts[0])
        if tag == "s" and len(parts) == 3:
            return slice(*(_decode(part, tables, depth + 1) for part in parts))
        if tag == "l":
            return [_decode(part, tables, depth + 1) for part in parts]
        if tag == "t":
            return tuple(_decode(part, tables, depth + 1) for part in parts)
    raise Unstable("it has an argument that is neither a column of the asset nor a number or text")


def _check_listed(operation: str, table: Table, allowed: Allowed) -> None:
    """Raises Unstable for an operation that a room would not run, or that changes its arguments."""
    if operation.startswith("."):
        library = importlib.import_module(table.library)
        class_ = getattr(library, _CLASSES[table.library, type(table)])
        found = allowed.method(class_, operation[1:])
    else:
        try:
            found = allowed.function(operation).effect
        except OperationRefused:
            found = None
    if found in (IN_PLACE, BACKWARD):
        raise Unstable("it changes its argument; make something new instead, such as x + 1 for x += 1")
    if found in (None, METADATA, LOCAL):
        raise Unstable("it may not be done to private data")
