"""A preparation as Narwhals expressions: written once, run by whatever engine a frame is of.

Theory. Engines differ where items are missing, are NaN, or do not fit, and in division, rounding and reading
numbers. So NaN becomes missing first; what would not fit is taken out before it is converted, so that no
engine has to decide; text is recognised by a regular expression before an engine parses it; and no expression
here uses `//`, `floor` or a remainder of negative numbers. Columns have names of our own inside, since
engines disagree about upper case, dots and quotes.

An item that may end the run (`invalid="error"`, `unknown="error"`) does not raise in the engine. Its row gets
the number of the step in the column BAD and is kept, so that one pass does the work and finds what is wrong.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import narwhals as nw

from duetlink.compute.prep import mix
from duetlink.compute.prep.cast import MOST_FLOAT32, converted
from duetlink.compute.prep.fields import DATE, DATETIME, OTHER, TEXT, Fields, after, needed, with_split
from duetlink.compute.prep.spec import PrepSpec
from duetlink.compute.prep.steps import (
    ERROR,
    EXACT,
    FLOATS,
    INTEGERS,
    Cast,
    Clip,
    DropMissing,
    Missing,
    OneHot,
    Scale,
    Select,
    Split,
    Step,
)
from duetlink.errors import PrepError

BAD = "duet_bad"  # int16: 0, or the number of the step whose item does not fit
ROW = "duet_row"  # int64: the row's number in its source, from 0
_TRAIN = "duet_train"
_MIX = "duet_mix"

_TYPES: Mapping[str, Any] = {
    "bool": nw.Boolean,
    "int8": nw.Int8,
    "int16": nw.Int16,
    "int32": nw.Int32,
    "int64": nw.Int64,
    "uint8": nw.UInt8,
    "uint16": nw.UInt16,
    "uint32": nw.UInt32,
    "float32": nw.Float32,
    "float64": nw.Float64,
    TEXT: nw.String,
    DATE: nw.Date,
}

Frame = Any  # a narwhals DataFrame or LazyFrame


def type_of(dtype: Any) -> str:
    """What we call a type of Narwhals."""
    if dtype in (nw.Categorical, nw.Enum) or isinstance(dtype, nw.Enum):
        return TEXT
    if isinstance(dtype, nw.Datetime) or dtype == nw.Datetime:
        return DATETIME if getattr(dtype, "time_zone", None) is None else OTHER
    return next((name for name, kind in _TYPES.items() if dtype == kind), OTHER)


@dataclass(frozen=True, slots=True)
class Lowered:
    """What to do to a frame whose columns are called `inner_names`."""

    stages: tuple[Callable[[Frame], Frame], ...]
    fields: Fields  # of the result, by the names that a person gave
    strict: bool  # whether the result has BAD, behind all others

    def apply(self, frame: Frame) -> Frame:
        """The result; its columns are `fields`, in order, under inner names, then BAD if `strict`, then ROW
        if the frame has it and `keep_row` was asked for.
        """
        for stage in self.stages:
            frame = stage(frame)
        return frame


def inner_name(place: int) -> str:
    """What the column at that place of a source is called inside."""
    return f"c{place}"


def lowered(
    spec: PrepSpec, fields: Fields, where: str, *, row: bool, keep_row: bool = False, blame: int = 0
) -> Lowered:
    """What a preparation does to a source with these columns, in this order.

    `row`: the frame has the column ROW. With `blame` it ends with the step of that number, and BAD is the
    place of the column of that step, from 1, that does not fit.

    Raises:
        PrepError: a column is not there or of another type; or split needs a column of keys.
    """
    work = _Lowering(spec, fields, where, row=row, blame=blame)
    for number, step in enumerate(spec.steps[: blame or None], 1):
        work.do(number, step)
    return work.finish(keep_row)


@dataclass
class _Lowering:
    spec: PrepSpec
    fields: Fields
    where: str
    row: bool
    blame: int
    stages: list[Callable[[Frame], Frame]] = field(default_factory=list)
    at: dict[str, str] = field(default_factory=dict)  # where each column is inside
    pending: dict[str, Any] = field(default_factory=dict)  # to be set in one stage
    made: set[str] = field(default_factory=set)  # inner names of what is not as it came
    checks: list[tuple[Any, int]] = field(default_factory=list)  # of the same stage
    strict: bool = False
    split: bool = False

    def __post_init__(self) -> None:
        names = list(self.fields)
        self.inner = itertools.count(len(names)).__next__
        kept = needed(self.spec, self.fields, self.where)
        places = {name: place for place, name in enumerate(names)}
        self.at = {name: inner_name(places[name]) for name in kept}
        self.fields = {name: self.fields[name] for name in kept}
        if kept != names:
            self._keep(self.at.values())
        for name, inner in self.at.items():
            if self.fields[name].type in FLOATS:
                self._set(inner, nw.when(~nw.col(inner).is_nan()).then(nw.col(inner)))
            elif self.fields[name].type == TEXT:
                self._set(inner, nw.col(inner).cast(nw.String))  # of a category or dictionary

    # -- stages ----------------------------------------------------------------------------------------------

    def _stage(self, stage: Callable[[Frame], Frame]) -> None:
        self.stages.append(stage)

    def _keep(self, names: Iterable[str]) -> None:
        kept = [*names, *([ROW] if self.row else []), *([BAD] if self.strict else [])]
        kept += [_TRAIN] if self.split else []
        self._stage(lambda frame: frame.select(*kept))

    def _set(self, inner: str, value: Any) -> None:
        self.pending[inner] = value
        self.made.add(inner)

    def _flush(self) -> None:
        """One stage for all that is pending; no expression of it needs another."""
        pending, checks = self.pending, self.checks
        if checks:
            bad: Any = nw.lit(0, nw.Int16)
            for violated, number in reversed(checks):
                bad = nw.when(violated).then(nw.lit(number, nw.Int16)).otherwise(bad)
            if self.strict:
                bad = nw.when(nw.col(BAD) > 0).then(nw.col(BAD)).otherwise(bad)
            pending = {**pending, BAD: bad.cast(nw.Int16)}
            self.strict = True
        if pending:
            columns = [value.alias(inner) for inner, value in pending.items()]
            self._stage(lambda frame: frame.with_columns(*columns))
        self.pending, self.checks = {}, []

    def _column(self, name: str) -> Any:
        """A column as it is at this step."""
        if self.at[name] in self.pending:
            self._flush()
        return nw.col(self.at[name])

    def _check(self, violated: Sequence[Any], number: int) -> None:
        if self.blame == number:
            self.strict = False  # earlier steps were found to be kept
            self.checks += [(one, place) for place, one in enumerate(violated, 1)]
        elif violated and not self.blame:
            self.checks.append((_tree(operator.or_, violated), number))

    # -- steps -----------------------------------------------------------------------------------------------

    def do(self, number: int, step: Step) -> None:
        fields = after(step, self.fields, self.where)
        if isinstance(step, Missing):
            for name in step.columns or [name for name, found in self.fields.items() if found.type == TEXT]:
                column = self._column(name)
                self._set(self.at[name], nw.when(~column.is_in(step.values)).then(column))
        elif isinstance(step, DropMissing):
            self._drop(step.columns or tuple(self.fields))
        elif isinstance(step, Cast):
            self._cast(number, step)
        elif isinstance(step, Select):
            self.at = {name: self.at[name] for name in step.columns}
        elif isinstance(step, OneHot):
            self._one_hot(number, step)
        elif isinstance(step, Scale):
            self._scale(step)
        elif isinstance(step, Clip):
            assert step.bounds is not None
            self._clip(step, *step.bounds)
        elif isinstance(step, Split):
            self._split(step)
        self.fields = fields

    def _drop(self, names: Sequence[str]) -> None:
        there = [~self._column(name).is_null() for name in names if self.fields[name].nullable]
        self._flush()
        if there:
            keep = _tree(operator.and_, there)
            if self.strict:
                keep = keep | (nw.col(BAD) > 0)
            self._stage(lambda frame: frame.filter(keep))

    def _cast(self, number: int, step: Cast) -> None:
        violated, places = [], [self._column(name) for name, _ in step.types]
        for column, (name, kind) in zip(places, step.types, strict=True):
            value, fits = converted(column, self.fields[name].type, kind, _TYPES)
            self._set(self.at[name], value)
            violated.append(
                (~fits & ~column.is_null()).fill_null(False) if fits is not None else nw.lit(False)
            )
        if step.invalid == ERROR:
            self._check(violated, number)

    def _one_hot(self, number: int, step: OneHot) -> None:
        assert step.categories is not None
        column = self._column(step.column)
        if self.fields[step.column].type in INTEGERS:
            column = column.cast(nw.Int64)
        if step.unknown == ERROR:
            self._check([(~column.is_in(step.categories)).fill_null(False)], number)
        made: dict[str, str] = {}
        for category, name in zip(step.categories, step.columns, strict=True):
            made[name] = inner_name(self.inner())
            self._set(made[name], (column == category).fill_null(False).cast(nw.Int8))
        self.at = {
            name: inner
            for old, place in self.at.items()
            for name, inner in (made.items() if old == step.column else ((old, place),))
        }

    def _clip(self, step: Clip, low: float, high: float) -> None:
        kind, column = self.fields[step.column].type, self._column(step.column)
        if kind in INTEGERS:
            column = column.cast(nw.Int64).clip(low, high)
        else:
            most = MOST_FLOAT32 if kind == "float32" else math.inf
            low, high = (min(max(float(bound), -most), most) for bound in (low, high))
            column = _between(column.cast(nw.Float64), low, high)
        self._set(self.at[step.column], column.cast(_TYPES[kind]))

    def _scale(self, step: Scale) -> None:
        assert step.bounds is not None
        low, high = step.bounds
        column = self._column(step.column)
        first, last = float(low), float(high)
        if self.fields[step.column].type in INTEGERS:
            # within EXACT, so that no engine rounds or refuses
            least, most = max(math.floor(low), -EXACT), min(math.ceil(high), EXACT)
            column = column.cast(nw.Int64).clip(least, most).cast(nw.Float64)
            if (least, most) != (first, last):
                column = _between(column, first, last)
        else:
            column = _between(column.cast(nw.Float64), first, last)
        # Polars divides by a constant so, and the others would round in another way
        column = column * (1.0 / last) if first == 0 else (column - first) * (1.0 / (last - first))
        self._set(self.at[step.column], column)

    def _split(self, step: Split) -> None:
        if not step.by and not self.row:
            raise PrepError(
                f"{self.where} comes without an order of its rows, by which split could tell them apart: "
                "give by=, a column of whole numbers such as an id",
                file=self.where,
            )
        key = self._column(step.by) if step.by else nw.col(ROW)
        self._flush()
        names = (f"{_MIX}{place}" for place in itertools.count())

        def settle(value: Any) -> Any:
            name = next(names)
            self._stage(lambda frame: frame.with_columns(value.alias(name)))
            return nw.col(name)

        number = mix.mixed(key.cast(nw.Int64).fill_null(0), step.seed, settle)
        train = (number < mix.threshold(step.train)).alias(_TRAIN)
        self._stage(lambda frame: frame.with_columns(train))
        self.split = True
        self._keep(self.at.values())

    def finish(self, keep_row: bool) -> Lowered:
        self._flush()
        fields = with_split(self.spec, self.fields, self.where) if self.split else self.fields
        made: list[Any] = [
            nw.col(inner).cast(_TYPES[kind])
            if (kind := self.fields[name].type) in _TYPES and inner in self.made
            else inner
            for name, inner in self.at.items()
        ]
        made += [_TRAIN] if self.split else []
        made += [BAD] if self.strict else []
        made += [ROW] if self.row and keep_row else []
        self._stage(lambda frame: frame.select(*made))
        return Lowered(tuple(self.stages), fields, self.strict)


def _between(column: Any, low: float, high: float) -> Any:
    """Floating point numbers, and the bound for each that is beyond it.

    All engines have a `clip`, and differ in whether -0.0 is beyond 0.
    """
    beyond = nw.when(column > high).then(nw.lit(high, nw.Float64)).otherwise(column)
    return nw.when(column < low).then(nw.lit(low, nw.Float64)).otherwise(beyond)


def _tree(join: Callable[[Any, Any], Any], parts: Sequence[Any]) -> Any:
    """All parts joined, as flat as can be: engines limit how deep an expression is."""
    found = list(parts)
    while len(found) > 1:
        pairs = [found[place : place + 2] for place in range(0, len(found), 2)]
        found = [functools.reduce(join, pair) for pair in pairs]
    return found[0]
