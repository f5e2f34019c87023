"""A preparation as a value: its steps, shown as a table, as Python, as JSON, and as a digest."""

from __future__ import annotations

import dataclasses
import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from duetlink.data.prep.base import ERROR, Step
from duetlink.data.prep.bounded import Bounds
from duetlink.data.prep.cast import Cast
from duetlink.data.prep.checks import MAX_COLUMNS
from duetlink.data.prep.clip import Clip
from duetlink.data.prep.drop_missing import DropMissing
from duetlink.data.prep.missing import Missing
from duetlink.data.prep.one_hot import Category, OneHot
from duetlink.data.prep.scale import Scale
from duetlink.data.prep.select import Select
from duetlink.data.prep.split import Split
from duetlink.errors import LimitExceeded, RemoteProtocolError, SettingError

# `PrepSpec` has a method with the name of each.
STEPS: tuple[type[Step], ...] = (Missing, DropMissing, Cast, Select, OneHot, Scale, Clip, Split)
VERSION = 1
MAX_BYTES = 1024 * 1024  # largest size of the JSON
MAX_STEPS = 1_000
MAX_FIELDS = 100_000  # total number of columns and categories in all steps
_BY_NAME = {step.name: step for step in STEPS}


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class PrepSpec:
    """The steps that prepare a table. Each method returns a new one; two are equal if their steps are.

    Null and NaN count as missing. Nothing in a preparation was computed from data.
    """

    steps: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.steps, tuple) or not all(type(step) in STEPS for step in self.steps):
            raise SettingError("the steps of a preparation are made by its methods")
        if len(self.steps) > MAX_STEPS:
            raise SettingError(f"there are {len(self.steps):,} steps, and there may be {MAX_STEPS:,}")
        if sum(isinstance(step, Split) for step in self.steps) > 1:
            raise SettingError("a preparation has one split at most")

    def __eq__(self, other: object) -> bool:
        # compares the JSON, in which the category 1 differs from True
        return isinstance(other, PrepSpec) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.to_json())

    # -- steps -----------------------------------------------------------------------------------------------

    def missing(self, *values: str, columns: list[str] | tuple[str, ...] = ()) -> Self:
        """Mark texts such as "NA" as missing, in these columns or in all columns of texts."""
        return self._with(Missing(values, tuple(columns)))

    def drop_missing(self, *columns: str) -> Self:
        """Drop rows with a missing item in one of these columns; if none are named, in any column."""
        return self._with(DropMissing(columns))

    def cast(self, types: Mapping[str, str] | None = None, *, invalid: str = ERROR, **more: str) -> Self:
        """Give columns other types: bool, int8 to int64, float32, float64, text, date.

        A text is a number if it is written with digits (`-12`, and for floating point `1.5` or `2e-3`), a
        date if it is written as `2026-11-23`, a truth value if it is true, false, 1 or 0. A number without a
        fraction becomes an integer, and a date its days since 1970-01-01. With `invalid="error"` an item that
        does not fit ends the run, with `invalid="missing"` it becomes missing.
        """
        return self._with(Cast(tuple({**(types or {}), **more}.items()), invalid))

    def select(self, *columns: str) -> Self:
        """Keep these columns, in this order."""
        return self._with(Select(columns))

    def one_hot(
        self, column: str, categories: Sequence[Category] | None = None, *, unknown: str = ERROR
    ) -> Self:
        """Replace a column of texts, integers or truth values by int8 columns `column=category` of 1 or 0.

        An item in no category ends the run, or has 0 in all columns with `unknown="ignore"`. `fit_private`
        can find the categories only with "ignore".
        """
        return self._with(OneHot(column, categories, unknown))  # type: ignore[arg-type]  # settled there

    def scale(self, column: str, bounds: Bounds | None = None, *, within: Bounds | None = None) -> Self:
        """Scale to float64 from 0 at the lower bound to 1 at the upper one; items beyond become 0 or 1."""
        return self._with(Scale(column, bounds, within=within))

    def clip(self, column: str, bounds: Bounds | None = None, *, within: Bounds | None = None) -> Self:
        """Replace items beyond a bound by the bound; the type stays."""
        return self._with(Clip(column, bounds, within=within))

    def split(self, train: float = 0.8, *, seed: int, by: str = "") -> Self:
        """Choose about that share of the rows to train with, equally on every engine and in every order.

        `by` is a column of integers that identifies rows; rows with equal ones stay together. Without it the
        number of the row in its source decides, on engines that keep the order.
        """
        return self._with(Split(train, seed, by))

    def _with(self, step: Step) -> Self:
        return dataclasses.replace(self, steps=(*self.steps, step))

    # -- properties ------------------------------------------------------------------------------------------

    @property
    def row_stable(self) -> bool:
        """True if each row is prepared or dropped independently of the others, and no row can fail.

        A private statistic of the result is possible only then.
        """
        return all(step.row_stable for step in self.steps) and not self.open_columns

    @property
    def strict(self) -> bool:
        """True if an item can end the run."""
        return any(step.strict for step in self.steps)

    @property
    def open_columns(self) -> tuple[str, ...]:
        """The columns whose bounds or categories `fit_private` must still find."""
        return tuple(step.open_column for step in self.steps if step.open_column)

    @property
    def split_step(self) -> Split | None:
        return next((step for step in self.steps if isinstance(step, Split)), None)

    @property
    def digest(self) -> str:
        """The SHA-256 of the JSON, as 64 hexadecimal digits: a name for exactly this preparation."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    # -- display ---------------------------------------------------------------------------------------------

    def code(self) -> str:
        """Return the Python source that makes it, on one line; texts are escaped."""
        return "Prep()" + "".join(f".{step.name}({', '.join(step.arguments())})" for step in self.steps)

    def table(self) -> str:
        """Return the steps as text for a reviewer, one per line."""
        rows = [(str(n), step.name, ", ".join(step.arguments())) for n, step in enumerate(self.steps, 1)] or [
            ("", "nothing", "")
        ]
        widths = [max(len(row[place]) for row in rows) for place in range(2)]
        return "\n".join(f"{n:>{widths[0]}}  {name:<{widths[1]}}  {rest}".rstrip() for n, name, rest in rows)

    def __repr__(self) -> str:
        return f"Prep {self.digest[:12]}, {len(self.steps)} steps\n{self.table()}"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{n}</td><td>{step.name}</td><td>{html.escape(', '.join(step.arguments()))}</td></tr>"
            for n, step in enumerate(self.steps, 1)
        )
        return f"<table><caption>Prep {self.digest[:12]}</caption>{rows}</table>"

    # -- as JSON ---------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """Return ASCII text that is the same for equal preparations."""
        steps = [{"step": step.name} | _values(step) for step in self.steps]
        return json.dumps({"prep": VERSION, "steps": steps}, separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_json(cls, content: str | bytes) -> Self:
        """Parse the result of `to_json`, which may come from a peer.

        Raises:
            LimitExceeded: it is longer than MAX_BYTES, or has more steps, columns or categories than allowed.
            RemoteProtocolError: it is no preparation; the message says why.
        """
        if len(content) > MAX_BYTES:
            raise LimitExceeded(f"a preparation of {len(content):,} bytes is over {MAX_BYTES:,}")
        try:
            found = json.loads(content, object_pairs_hook=_distinct, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            raise RemoteProtocolError("a preparation is not valid JSON, or names a field twice") from None
        if type(found) is not dict or set(found) != {"prep", "steps"} or type(found["steps"]) is not list:
            raise RemoteProtocolError("a preparation has the fields prep and steps")
        if type(found["prep"]) is not int or found["prep"] != VERSION:
            raise RemoteProtocolError(
                f"this version reads preparations of version {VERSION}; update duetlink on both sides"
            )
        if len(found["steps"]) > MAX_STEPS:
            raise LimitExceeded(f"a preparation of {len(found['steps']):,} steps is over {MAX_STEPS:,}")
        try:
            spec = cls(tuple(map(_step, found["steps"])))
        except SettingError as error:
            raise RemoteProtocolError(f"a preparation cannot be used: {error}") from None
        if sum(map(_size, spec.steps)) > MAX_FIELDS:
            raise LimitExceeded(f"a preparation names more than {MAX_FIELDS:,} columns and categories")
        return spec


def _values(step: Step) -> dict[str, Any]:
    values = {field.name: getattr(step, field.name) for field in dataclasses.fields(step)}
    return {name: value for name, value in values.items() if value is not None}


def _size(step: Step) -> int:
    return sum(len(value) for value in _values(step).values() if isinstance(value, tuple))


def _step(found: Any) -> Step:
    if type(found) is not dict or type(found.get("step")) is not str or found["step"] not in _BY_NAME:
        raise RemoteProtocolError(f"a step of a preparation is one of {', '.join(_BY_NAME)}")
    kind = _BY_NAME[found.pop("step")]
    fields = {field.name: field for field in dataclasses.fields(kind)}
    needed = {name for name, field in fields.items() if field.default is dataclasses.MISSING}
    if not needed <= set(found) <= set(fields):
        raise RemoteProtocolError(f"a step {kind.name} has the fields {', '.join(fields)}")
    values: dict[str, Any] = {}
    for name, value in found.items():
        if type(value) is list:
            if len(value) > MAX_COLUMNS:
                raise LimitExceeded(f"a step {kind.name} names more than {MAX_COLUMNS:,} {name}")
            value = tuple(tuple(item) if type(item) is list else item for item in value)
        elif type(value) is dict:
            raise RemoteProtocolError(f"{name} of a step {kind.name} must not be an object")
        values[name] = value
    try:
        return kind(**values)
    except TypeError:  # an item that is compared or hashed is a list
        raise RemoteProtocolError(f"a step {kind.name} has fields of other types") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a field occurs twice")
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not valid JSON")
