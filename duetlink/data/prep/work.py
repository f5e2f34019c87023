"""The columns of a frame while a preparation is translated, step by step, to stages of expressions.

Columns have inner names (c0, c1, ...), since engines disagree about upper case, dots and quotes.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import narwhals as nw

from duetlink.data.prep.fields import BOOL, DATE, DATETIME, FLOATS, OTHER, TEXT, Fields

BAD = "duet_bad"  # int16: 0, or the number of the step whose item does not fit
ROW = "duet_row"  # int64: the row's number in its source, from 0
_TRAIN = "duet_train"
_MIX = "duet_mix"

TYPES: Mapping[str, Any] = {
    BOOL: nw.Boolean,
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
Stage = Callable[[Frame], Frame]


def type_of(dtype: Any) -> str:
    """Return our name of a Narwhals type."""
    if dtype in (nw.Categorical, nw.Enum) or isinstance(dtype, nw.Enum):
        return TEXT
    if isinstance(dtype, nw.Datetime) or dtype == nw.Datetime:
        return DATETIME if getattr(dtype, "time_zone", None) is None else OTHER
    return next((name for name, kind in TYPES.items() if dtype == kind), OTHER)


def inner_name(position: int) -> str:
    """Return the inner name of the column at that position of a source."""
    return f"c{position}"


class Work:
    """The stages so far, and the inner name of each column after them.

    `kept` are the columns of the source that are needed; the frame has ROW if `row`. With `blame` only the
    checks of the step of that number count, and BAD is the number of the violated check, from 1.
    """

    def __init__(self, fields: Fields, kept: Sequence[str], where: str, *, row: bool, blame: int) -> None:
        self.where = where
        self.row = row
        self.number = 0  # number of the current step, from 1
        self.stages: list[Stage] = []
        self.fields: Fields = {name: fields[name] for name in kept}
        places = {name: inner_name(place) for place, name in enumerate(fields)}
        self.at = {name: places[name] for name in kept}  # the inner name of each column
        self.strict = False
        self.split = False
        self._blame = blame
        self._pending: dict[str, Any] = {}  # expressions to set in the next stage
        self._made: set[str] = set()  # inner names of columns that were changed
        self._checks: list[tuple[Any, int]] = []  # checks of the next stage
        self._inner = itertools.count(len(fields))
        if list(kept) != list(fields):
            self._keep_columns()
        for name in kept:
            column = nw.col(self.at[name])
            if self.fields[name].type in FLOATS:
                self.set(name, nw.when(~column.is_nan()).then(column))
            elif self.fields[name].type == TEXT:
                self.set(name, column.cast(nw.String))  # decodes a category or dictionary

    # -- for steps -------------------------------------------------------------------------------------------

    def column(self, name: str) -> Any:
        """Return a column as it is at this step."""
        if self.at[name] in self._pending:
            self._flush()
        return nw.col(self.at[name])

    def set(self, name: str, value: Any) -> None:
        """Replace a column's items. Expressions that `column` returned before still mean the old items."""
        self._set(self.at[name], value)

    def replace(self, name: str, made: Mapping[str, Any]) -> None:
        inner = {new: inner_name(next(self._inner)) for new in made}
        for new, value in made.items():
            self._set(inner[new], value)
        self.at = {
            new: place
            for old, there in self.at.items()
            for new, place in (inner.items() if old == name else ((old, there),))
        }

    def check(self, violated: Sequence[Any]) -> None:
        """Mark rows as BAD if one of these conditions holds: an item does not fit this step."""
        if self._blame == self.number:
            self.strict = False  # earlier steps are known to fit
            self._checks += [(one, place) for place, one in enumerate(violated, 1)]
        elif violated and not self._blame:
            self._checks.append((_tree(operator.or_, violated), self.number))

    def keep_rows(self, conditions: Sequence[Any]) -> None:
        """Keep the rows for which all conditions are true, and rows that are BAD already."""
        self._flush()
        if conditions:
            keep = _tree(operator.and_, conditions)
            if self.strict:
                keep = keep | (nw.col(BAD) > 0)
            self.stages.append(lambda frame: frame.filter(keep))

    @property
    def row_number(self) -> Any:
        """The expression of the row's number in its source."""
        return nw.col(ROW)

    def settled(self, value: Any) -> Any:
        """Store an intermediate result as a column that lives until `train` is called; return the column."""
        self._flush()
        name = f"{_MIX}{next(self._inner)}"
        self.stages.append(lambda frame: frame.with_columns(value.alias(name)))
        return nw.col(name)

    def train(self, chosen: Any) -> None:
        """Mark the rows for which `chosen` is true as the ones to train with."""
        train = chosen.alias(_TRAIN)
        self.stages.append(lambda frame: frame.with_columns(train))
        self.split = True
        self._keep_columns()

    # -- stages ----------------------------------------------------------------------------------------------

    def _ours(self, *, row: bool) -> list[str]:
        """Return the names of the helper columns: the split's, BAD, and ROW."""
        return [*([_TRAIN] if self.split else []), *([BAD] if self.strict else []), *([ROW] if row else [])]

    def _keep_columns(self) -> None:
        kept = [*self.at.values(), *self._ours(row=self.row)]
        self.stages.append(lambda frame: frame.select(*kept))

    def _set(self, inner: str, value: Any) -> None:
        self._pending[inner] = value
        self._made.add(inner)

    def _flush(self) -> None:
        """Add one stage for all pending expressions, none of which depends on another."""
        pending, checks = self._pending, self._checks
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
            self.stages.append(lambda frame: frame.with_columns(*columns))
        self._pending, self._checks = {}, []

    def finish(self, *, keep_row: bool) -> None:
        """Add the last stage: the columns in order, then the split's, BAD if `strict`, and ROW if kept."""
        self._flush()
        made: list[Any] = [
            nw.col(inner).cast(TYPES[kind])
            if (kind := self.fields[name].type) in TYPES and inner in self._made
            else inner
            for name, inner in self.at.items()
        ]
        made += self._ours(row=self.row and keep_row)
        self.stages.append(lambda frame: frame.select(*made))


def _tree(join: Callable[[Any, Any], Any], parts: Sequence[Any]) -> Any:
    """Join all parts as a balanced tree: engines limit the depth of an expression."""
    found = list(parts)
    while len(found) > 1:
        pairs = [found[place : place + 2] for place in range(0, len(found), 2)]
        found = [functools.reduce(join, pair) for pair in pairs]
    return found[0]
