"""Plans private statistics: finds the statistic that a program's last step names, checks that it can be made,
and computes its cost. No data is read.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from duetlink.base.wire import json_
from duetlink.compute.operations.allow_lists.allowed import Allowed, libraries
from duetlink.compute.operations.canonical import Program
from duetlink.compute.operations.steps.program import ASSET, Step, references
from duetlink.compute.privacy.lineage import Refusal, Route, row_stable, source_rows
from duetlink.compute.privacy.release import plan
from duetlink.compute.privacy.statistic import MAX_BYTES, Statistic
from duetlink.compute.privacy.table import Rows
from duetlink.duet.objects.budget import Bounds, BudgetedAsset
from duetlink.errors import OperationRefused, RemoteProtocolError, SettingError

# which statistic an operation asks for, by the bare name of a function or method
_KINDS = {
    "count": "count",
    "len": "count",
    "size": "count",
    "sum": "sum",
    "nansum": "sum",
    "mean": "mean",
    "nanmean": "mean",
    "var": "variance",
    "nanvar": "variance",
    "quantile": "quantile",
    "nanquantile": "quantile",
    "median": "quantile",
    "nanmedian": "quantile",
    "value_counts": "histogram",
    "histogram": "histogram",
}


@dataclass(frozen=True, slots=True)
class Private:
    """A private statistic that can be made: its column, its bounds and its cost."""

    statistic: Statistic
    route: Route
    bounds: Bounds | None
    rows_per_person: int
    program: Program  # the column alone, by the steps of the route
    shown: Program  # the statistic without noise, by the same steps; as it is shown

    def to_json(self) -> bytes:
        """Return the statistic, bounds and rows per person as JSON for the room."""
        return json.dumps(
            {
                "statistic": self.statistic.to_json().decode(),
                "bounds": self.bounds,
                "rows_per_person": self.rows_per_person,
            }
        ).encode()


def planned(
    steps: Sequence[Step], target: int, asked: bytes, budgeted: dict[tuple[str, int], BudgetedAsset]
) -> Private:
    """Plan the statistic that the last step of result `target` names. No data is read.

    Raises:
        OperationRefused: no private statistic can be made of it; the message says why.
        RemoteProtocolError, LimitExceeded: the question is malformed.
    """
    last = next((step for step in steps if step.id == target), None)
    if last is None:
        raise OperationRefused(f"there is no result {target}")
    if last.operation == "operator.getitem" and len(last.arguments) == 2 and last.arguments[1] == 0:
        inner = references(last)  # numpy.histogram returns counts and edges; this takes the counts
        before = next((step for step in steps if inner and step.id == inner[0]), None)
        last = before if before is not None and before.operation == "numpy.histogram" else last
    kind = _KINDS.get(last.operation.rpartition(".")[2])
    used = references(last)
    if kind is None or len(used) != 1:
        raise OperationRefused(
            f"{last.operation} is no private statistic; there are count, sum, mean, var, quantile, histogram "
            "of one column"
        )
    statistic = _statistic(kind, last, asked)
    route = row_stable(steps, used[0], _allowed(), {key: asset.table for key, asset in budgeted.items()})
    if isinstance(route, Refusal):
        raise OperationRefused(route.words)
    budget = budgeted[route.asset, route.revision].budget
    bounds = statistic.bounds or budget.bounds_of(_column(route))
    try:
        statistic.check_kind(route.column.kind)
        plan(statistic, bounds, max_contributions=budget.rows_per_person)
    except SettingError as error:
        raise OperationRefused(str(error)) from None
    column = _program(route.steps, route.target)
    shown = _program((*route.steps, *_last(steps, target)), target)
    return Private(statistic, route, bounds, budget.rows_per_person, column, shown)


def _last(steps: Sequence[Step], target: int) -> list[Step]:
    """Return the steps that compute the statistic of the column: one, or two for the counts of a
    histogram.
    """
    last = next(step for step in steps if step.id == target)
    before = next(step for step in steps if step.id == references(last)[0])
    return [before, last] if before.operation == "numpy.histogram" else [last]


def _program(steps: Sequence[Step], target: int) -> Program:
    """Return these steps as a program of their own."""
    numbers = {step.id: number for number, step in enumerate(steps, 1)}

    def renumbered(argument: Any) -> Any:
        if type(argument) is not list:
            return argument
        if type(argument[0]) is int:
            return [numbers[argument[0]]]
        return list(map(renumbered, argument))

    raw = [
        [
            step.operation,
            list(map(renumbered, step.arguments)),
            *(
                [{name: renumbered(argument) for name, argument in step.keywords.items()}]
                if step.keywords
                else ()
            ),
        ]
        for step in steps
    ]
    return Program.of_steps(raw, numbers[target])


def rows_found(program: Program, budgeted: dict[tuple[str, int], BudgetedAsset]) -> Rows | str:
    """Return which rows of which asset the result has, if each of its rows is made from one row and nothing
    else; otherwise the reason, as text.

    The rows of two programs compare equal if the same steps chose them. No data is read.
    """
    schemas = {key: asset.table for key, asset in budgeted.items()}
    found = source_rows(program.steps, program.target, _allowed(), schemas)
    if isinstance(found, Refusal):
        return found.words
    rows, route = found
    if _program(route, program.target).digest != program.digest:
        return "a step may have changed it in place; make copies of what you change"
    steps = [program.steps[index].id for index in rows.filters if isinstance(index, int)]
    return dataclasses.replace(rows, filters=tuple(_program(route, step).digest for step in steps))


def _statistic(kind: str, step: Step, asked: bytes) -> Statistic:
    """Combine the constants of the operation, such as q, with what was given to `dp`."""
    if len(asked) > MAX_BYTES:
        raise RemoteProtocolError("the parameters of a private statistic are too long")
    try:
        fields = json_.read(asked, dict[str, Any])
    except ValueError:
        raise RemoteProtocolError("the parameters of a private statistic are no JSON object") from None
    fields["kind"] = kind
    if kind == "quantile":
        median = step.operation.endswith("median")
        fields.setdefault("q", 0.5 if median else _constant(step, "q"))
    if step.operation.endswith("histogram"):
        bins = _constant(step, "bins")
        fields.setdefault("bins", bins[1:] if type(bins) is list else bins)
    return Statistic.from_json(json.dumps(fields).encode())


def _constant(step: Step, name: str) -> Any:
    """Return the argument after the column, by position or by name."""
    if name in step.keywords:
        return step.keywords[name]
    return step.arguments[1] if len(step.arguments) > 1 else None


def _column(route: Route) -> str | None:
    """Return the name of the asset's column, if the route only selects a column and rows; None if it computes
    anything.
    """
    name = None
    for step in route.steps:
        if step.operation == ASSET:
            continue
        if step.operation != "operator.getitem":
            return None
        if len(step.arguments) == 2 and type(step.arguments[1]) is str:
            name = step.arguments[1]
    return name


def _allowed() -> Allowed:
    """Return the allow-lists of the libraries that this process has imported. The library of every shared
    asset is among them.
    """
    import sys

    return Allowed(library for library in libraries() if library in sys.modules or library == "python")
