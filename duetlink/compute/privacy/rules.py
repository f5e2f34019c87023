"""Rules for operations that compute each row of a column from the same row of other columns.

A rule takes one operation (`ColumnOperation`) and returns the kind of its result, or the whole column if more
than its kind changes. It raises `Unstable` if the operation with these arguments is not accepted.

Only operations whose result is exact to the last bit are here: sums, quotients, roots, comparisons. Libraries
compute logarithms and the like several rows at a time, and the remaining rows by other code, so that a row's
last bit may depend on its position, and thus on the number of rows. For the same reason the maximum of 0 and
-0 may be either of the two (`signless`); only a division distinguishes them.

An operation must not fail, or give another type, for some data only: the failure would reveal something, and
no noise covers it. So integers may be divided by constants above 0 only, and floating point numbers are not
converted to integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from duetlink.compute.privacy.call import ColumnOperation, Unstable, kind_of
from duetlink.compute.privacy.table import (
    BOOL,
    FLOAT,
    INT,
    NUMBERS,
    NUMPY,
    POLARS,
    TEXT,
    TORCH,
    Column,
)

_MOST_ITEMS = 1_000  # of the list in a membership test
_MOST_DECIMALS = 15

Rule = Callable[[ColumnOperation], Column | str]  # str: the kind of the result, if nothing else is new


def _joined(kinds: Sequence[str]) -> str:
    return FLOAT if FLOAT in kinds else INT


def arithmetic(call: ColumnOperation) -> str:
    kinds = call.kinds(2, NUMBERS | {BOOL})
    for item, kind in zip(call.items, kinds, strict=True):
        alone = isinstance(item, Column) and kinds != [BOOL, BOOL] and call.library != POLARS
        if kind == BOOL and not alone:
            raise Unstable("it does not compute with these truth values: convert them with astype('int64')")
    return _joined(kinds)


def divide(call: ColumnOperation) -> str:
    arithmetic(call)
    divisor = call.items[1]
    if isinstance(divisor, Column) and divisor.signless:
        raise Unstable(
            "its divisor was clipped, or is a minimum or maximum of two columns; divide before that"
        )
    return FLOAT


def divide_whole(call: ColumnOperation) -> str:
    kinds = call.kinds(2, NUMBERS)
    divisor = call.items[1]
    if not isinstance(divisor, int | float) or divisor <= 0:
        raise Unstable("it divides by a constant above 0 only")
    # these multiply by an inverse, or use other code for a single row or the last few rows
    if call.library in (TORCH, POLARS):
        raise Unstable(f"{call.library} does not compute it in the same way for every row; use / and floor")
    return _joined(kinds)


def power(call: ColumnOperation) -> str:
    kind, _ = call.kinds(2, NUMBERS)
    if type(call.items[1]) is not int or call.items[1] != 2:
        raise Unstable("the only power is 2, which is exact")
    return kind


def same_number(call: ColumnOperation) -> str:
    return call.kinds(1, NUMBERS)[0]


def root(call: ColumnOperation) -> str:
    call.kinds(1, NUMBERS)
    return FLOAT


def whole(call: ColumnOperation) -> str:
    return call.kinds(1, frozenset({FLOAT}))[0]


def round_(call: ColumnOperation) -> str:
    decimals = call.constants("decimals")[0]
    if kind_of(call.items[0]) != FLOAT:
        raise Unstable("it rounds floating point numbers only")
    given = [*call.items[1:], *call.keywords.values()]  # pandas fails on None, but only if there is a row
    if given and (type(decimals) is not int or not 0 <= decimals <= _MOST_DECIMALS):
        raise Unstable(f"it rounds to 0 to {_MOST_DECIMALS} decimals")
    return FLOAT


def extreme(call: ColumnOperation) -> Column:
    return _signless(call, _joined(call.kinds(2, NUMBERS)))


def _signless(call: ColumnOperation, kind: str) -> Column:
    column = next(item for item in call.items if isinstance(item, Column))
    return Column(call.library, kind, column.rows, signless=True)


def clip(*names: str) -> Rule:
    def clip(call: ColumnOperation) -> Column:
        kind = kind_of(call.items[0])
        bounds = [bound for bound in call.constants(*names) if bound is not None]
        # pandas changes the type of integers if one of them is clipped to a floating point bound
        allowed = NUMBERS if kind == FLOAT else {INT}
        if kind not in NUMBERS or not bounds or not allowed.issuperset(kind_of(bound) for bound in bounds):
            raise Unstable(f"it clips numbers, to constants of their kind, {' or '.join(names)}")
        if len(bounds) == 2 and bounds[0] > bounds[1]:  # type: ignore[operator]
            raise Unstable("its lower bound is above its upper one")
        return _signless(call, kind)

    return clip


def where(call: ColumnOperation) -> Column | str:
    mask, *choices = call.exactly(3)
    kinds = [kind_of(choice) for choice in choices]
    if not isinstance(mask, Column) or mask.kind != BOOL or not NUMBERS.issuperset(kinds):
        raise Unstable("it takes a condition, and two numbers or columns of numbers")
    return Column(TORCH if mask.library == TORCH else NUMPY, _joined(kinds), mask.rows)


def order(call: ColumnOperation) -> str:
    call.kinds(2, NUMBERS)
    return BOOL


def equal(call: ColumnOperation) -> str:
    kinds = {kind_of(item) for item in call.exactly(2)}
    one_text = kinds == {TEXT} and any(isinstance(item, str) for item in call.items)
    if not (kinds <= NUMBERS or kinds == {BOOL} or one_text):
        raise Unstable("it compares numbers, truth values, or texts with a constant text")
    return BOOL


def logic(call: ColumnOperation) -> str:
    call.kinds(2, frozenset({BOOL}))
    if not all(isinstance(item, Column) for item in call.items):
        raise Unstable("it takes two conditions")
    return BOOL


def not_(call: ColumnOperation) -> str:
    return call.kinds(1, frozenset({BOOL}))[0]


def finite(call: ColumnOperation) -> str:
    call.kinds(1, NUMBERS)
    return BOOL


def missing(call: ColumnOperation) -> str:
    call.exactly(1)
    return BOOL


def between(call: ColumnOperation) -> str:
    call.kinds(3, NUMBERS)
    if any(isinstance(item, Column) for item in call.items[1:]):
        raise Unstable("it takes two constants")
    return BOOL


def among(call: ColumnOperation) -> str:
    kind, items = kind_of(call.items[0]), call.exactly(2)[1]
    if isinstance(items, str) or not isinstance(items, Sequence) or len(items) > _MOST_ITEMS:
        raise Unstable(f"it takes a list of at most {_MOST_ITEMS:,} constants")
    allowed = NUMBERS if kind == FLOAT else {kind} & {INT, TEXT}
    if not items or not allowed.issuperset(kind_of(item) for item in items):
        raise Unstable("it looks for numbers among numbers, or for texts among texts")
    return BOOL


def fill(*kinds: str) -> Rule:
    def fill(call: ColumnOperation) -> str:
        kind, value = (kind_of(item) for item in call.exactly(2))
        if isinstance(call.items[1], Column) or kind not in kinds or value not in (kind, INT):
            raise Unstable("it fills columns of numbers with a constant of their kind")
        return kind

    return fill
