"""Groups: the smallest number of asset rows behind any number of a result, for policies with `min_group`.

A row of an asset counts as one person. A result has the smallest group of its arguments. An aggregate has as
many rows as went into each of its items, if that is known, which requires that its source holds rows of
assets, each at most once; otherwise the same row five times would count as a group of five. Only averages
have a group larger than one: `compute/operations/lists/averages.toml` lists them, with the arguments that
they may have.

The group says nothing about operations on single rows before an aggregate, nor about differences between
aggregates: see SECURITY.md.

The code recognises an object by its class, never by its attributes: a frame, a series or groups of pandas
offer their labels as attributes, and a peer may choose any label.

Example: `people` has 100 rows, three of them without an age. `people` has the group ROWS, and so has
`people["age"]`. `people["age"].mean()` has the group 97. `people["age"].max()` has the group 1, since it is
one person's age.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from duetlink.compute.operations.allow_lists.allowed import ELEMENTWISE, read_list

EVERYBODY = 1 << 60  # the result contains nothing of an asset
ROWS = 1.5  # the result holds single rows of assets, each at most once; 1: that is not known
Group = int | float


class State(NamedTuple):
    """The groups that a run needs to continue after a frozen value."""

    group: Group  # of the frozen value
    # upper bound for every later result, because a write in place may be visible in any of them
    write_bound: Group
    # upper bound for results of objects that hold others, such as models, which may keep what was written
    container_bound: Group


# These return some of the rows that they are given, none of them twice
_SOME_ROWS = """.contiguous .convert_dtypes .cpu .detach .double .drop .drop_duplicates .drop_nans .drop_nulls
.dropna .float .get_column .groupby .half .head .infer_objects .limit .long .numpy .rename .rename_axis
.reset_index .select_dtypes .sort_index .sort_values .tail .to .to_frame .to_numpy @iloc @loc @values
numpy.array numpy.asarray numpy.ascontiguousarray torch.as_tensor torch.asarray torch.from_numpy
duetlink.compute.prep.frames.prepare"""
_SAME_ROWS = frozenset(_SOME_ROWS.split())
# Elementwise operations, by the last part of their names, whose positional arguments are all operands. Of
# other elementwise operations only the first argument is one; the rest are options, as the holidays of
# numpy.is_busday.
_PAIRING_NAMES = """__radd__ __rand__ __rdiv__ __rfloordiv__ __rlshift__ __rmod__ __rmul__ __ror__ __rpow__
__rrshift__ __rsub__ __rtruediv__ __rxor__ add addcdiv addcmul and_ arctan2 atan2 between bitwise_and
bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor clamp clip complex copysign div divide eq
eq_missing equal float_power floor_divide floordiv fmax fmin fmod gcd ge greater greater_equal gt heaviside
hypot igamma igammac is_between is_close isclose lcm ldexp le left_shift lerp less less_equal logaddexp
logaddexp2 logical_and logical_or logical_xor lshift lt mask masked_fill maximum minimum mod mul multiply ne
ne_missing nextafter not_equal or_ polar pow power radd rdiv remainder rfloordiv right_shift rmod rmul rpow
rshift rsub rtruediv sub subtract true_divide truediv where xlogy xor"""
PAIRING = frozenset(_PAIRING_NAMES.split())
_NOT_BY_ROW = frozenset({"numpy.select"})  # each row of its conditions is a whole condition
_TYPED = frozenset({".astype", ".cast", "numpy.astype"})  # their second argument is an item type
# The keywords that elementwise operations may have. Others are refused: `level` makes pandas repeat rows.
_SETTING_NAMES = """alpha atol axis base copy decimals dtype equal_nan errors fill_value inclusive lower max
min nan neginf other posinf rounding_mode rtol strict upper value"""
_SETTINGS = frozenset(_SETTING_NAMES.split())
# The classes of operands. Not among them: expressions and functions, which see all rows, and numpy.matrix,
# whose `*` is the matrix product.
_OPERAND_KINDS = """builtins.NoneType builtins.bool builtins.bytes builtins.complex builtins.float
builtins.int builtins.str datetime.date datetime.datetime datetime.timedelta numpy.ndarray pandas.DataFrame
pandas.Series pandas.Timedelta pandas.Timestamp polars.DataFrame polars.Series torch.Parameter torch.Tensor"""
_OPERANDS = frozenset(_OPERAND_KINDS.split())
_LABELLED = frozenset({"pandas.DataFrame", "pandas.Series"})
_PLAIN = frozenset({int, float, bool, complex, str, bytes, type(None), slice})
_PAIRWISE = frozenset({".corr", ".cov", "numpy.corrcoef", "numpy.cov"})
_CHOICES = frozenset({int, bool, str, type(None)})  # classes of the arguments of an average
_MISSING = "fcmM"  # dtype.kind of the NumPy types that have a value for missing items (NaN, NaT)
_NUMBERS = "biufcm"
_COUNTED = f"biuSU{_MISSING}"  # dtype.kind of the types whose missing items can be counted


@dataclass(frozen=True, slots=True)
class _Average:
    """The keywords and the number of further positional arguments that an average may have."""

    keywords: frozenset[str]
    by_place: int


@functools.cache
def _averages() -> Mapping[str, _Average]:
    return {
        operation: _Average(frozenset(table["keywords"]), table["by_place"])
        for table in read_list("averages")["averages"]
        for operation in table["operations"]
    }


def aggregate_group(
    operation: str,
    private: Sequence[Any],
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    result: Any,
) -> Group:
    """Return the group of an aggregate. `private` are those of its arguments that have the group ROWS."""
    if len(private) != 1 or not arguments or private[0] is not arguments[0]:
        return 1
    average = _averages().get(operation)
    if average is None or len(arguments) - 1 > average.by_place or not average.keywords >= keywords.keys():
        return 1
    if not all(map(_is_choice, (*arguments[1:], *keywords.values()))):
        return 1
    if not _is_of_numbers(operation, arguments[0], result):
        return 1
    return max(1, _rows_per_item(operation, arguments[0], result))


def row_group(
    operation: str,
    effect: str,
    private: Sequence[Any],
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    result: Any,
) -> Group:
    """Return the group, ROWS or 1, of the result of an operation that is no aggregate.

    `private` are those of its arguments that have the group ROWS.
    """
    if effect == ELEMENTWISE:
        return ROWS if _is_by_item(operation, private, arguments, keywords, result) else 1
    if not private or not arguments or private[0] is not arguments[0]:
        return 1
    if operation == "operator.getitem":
        chosen = _takes_rows_once(arguments[0], arguments[1])
    else:
        chosen = operation in _SAME_ROWS and (operation == ".groupby" or len(private) == 1)
    return ROWS if chosen and _is_part(arguments[0], result) else 1


def is_by_row(private: Sequence[Any], operands: Sequence[Any], result: Any) -> bool:
    """Check that an elementwise operation kept each row of `private`, some of its operands, at its position.

    Returns False if shapes differ, so that rows may have been repeated along another axis, or if labels
    differ, so that pandas may have moved rows.
    """
    shape = _shape(result)
    if shape is None or any(_shape(source) != shape for source in private):
        return False
    labels = [
        table.index
        for table in (*operands, result)
        if _kind_of(table) in _LABELLED and _shape(table) == shape
    ]
    return all(labels[0].nlevels == other.nlevels and labels[0].equals(other) for other in labels[1:])


def _is_by_item(
    operation: str,
    private: Sequence[Any],
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    result: Any,
) -> bool:
    """Apply `is_by_row` to arguments that are not known to be operands; False if some are not accepted."""
    count = len(arguments) if operation.rpartition(".")[2] in PAIRING else 1
    operands, settings = arguments[:count], [*arguments[count:], *keywords.values()]
    if operation in _NOT_BY_ROW or not private or not keywords.keys() <= _SETTINGS:
        return False
    if not all(_is_among(source, operands) for source in private):
        return False
    if any(_is_among(setting, private) for setting in settings):  # even if it is an operand as well
        return False
    dtype = arguments[1:2] if operation in _TYPED else [keywords.get("dtype")]
    others = [setting for setting in settings if not _is_among(setting, dtype)]
    if not all(map(_is_operand, operands)) or not all(map(_is_setting, others)):
        return False
    return is_by_row(private, (*operands, *others), result)


def _is_among(obj: Any, others: Sequence[Any]) -> bool:
    return any(obj is other for other in others)


def _is_setting(argument: Any) -> bool:
    if type(argument) in (list, tuple):
        return all(type(part) in _PLAIN for part in argument)
    return _is_operand(argument)


def _is_operand(argument: Any) -> bool:
    return _kind_of(argument) in _OPERANDS or _has_base(argument, "numpy", "generic")


def _kind_of(obj: Any) -> str:
    kind: Any = type(obj)
    return _name_of(kind)


@functools.cache
def _name_of(kind: type) -> str:
    return f"{kind.__module__.partition('.')[0]}.{kind.__name__}"


def _has_base(obj: Any, library: str, name: str) -> bool:
    return any(
        base.__name__ == name and base.__module__.partition(".")[0] == library for base in type(obj).__mro__
    )


def _is_groups(obj: Any) -> bool:
    return _has_base(obj, "pandas", "GroupBy")


def _is_frame(obj: Any) -> bool:
    return _has_base(obj, "pandas", "DataFrame") or _has_base(obj, "polars", "DataFrame")


def is_data(obj: Any) -> bool:
    """True if other results may be views of this object's memory."""
    kind: Any = type(obj)
    return _is_data_by_kind(kind) or _rows(obj) is not None


@functools.cache
def _is_data_by_kind(kind: type) -> bool:
    return kind.__module__.startswith(("pandas", "polars", "numpy")) or hasattr(kind, "dim")


def holds_others(obj: Any) -> bool:
    """True if it may contain other objects, or be contained in them, as a model or a list."""
    kind: Any = type(obj)
    return kind not in _PLAIN and not _is_data_by_kind(kind) and _rows(obj) is None


def _is_choice(argument: Any) -> bool:
    """True for a plain option of an average. An array, or a number from data, could single out a row."""
    if type(argument) is tuple:
        return all(type(part) is int for part in argument)
    return type(argument) in _CHOICES


def _is_of_numbers(operation: str, source: Any, result: Any) -> bool:
    """True if the result is a number, or an array or table of numbers.

    A tuple might contain single rows, and the sum of texts is their concatenation.
    """
    if type(result) in (int, float, bool, complex):
        return True
    if not isinstance(getattr(result, "shape", None), tuple):
        return False
    if not type(result).__module__.startswith("pandas"):
        return True
    if _is_groups(source) and operation != ".sum":
        return True  # only group keys can be texts here: texts are not averaged
    dtypes = result.dtypes if _is_frame(result) else [result.dtype]
    return all(dtype.kind in _NUMBERS for dtype in dtypes)


def _rows_per_item(operation: str, source: Any, result: Any) -> int:
    """Return the smallest number of rows that an item of an aggregate was made from."""
    if _is_groups(source):
        return _smallest_group(source)
    if operation == ".value_counts":
        return int(result.min()) if len(result) else 1
    shape = _shape(source)
    if shape is None or 0 in shape or _rows(result) == shape[0]:
        return 1  # it has as many items as there are rows, so each may come from one row
    if operation in _PAIRWISE:
        return _complete(source, shape[0])
    return _present(source, shape[0])


def _smallest_group(source: Any) -> int:
    sizes = source.size()
    if _is_frame(sizes):  # of as_index=False
        sizes = sizes["size"]
    if not len(sizes) or bool(source.obj.isna().to_numpy().any()):
        return 1  # the sizes include rows with missing items, which an aggregate skips
    return int(sizes.min())


def _complete(source: Any, rows: int) -> int:
    """Count the rows without any missing item; a pair of columns has at least these in common."""
    if _has_base(source, "pandas", "DataFrame"):
        return int(source.notna().all(axis=1).sum())
    return rows if _present(source, rows) == rows else 1


def _present(source: Any, rows: int) -> int:
    """Count the rows that have a value, in the column with the fewest: aggregates skip missing items."""
    module = type(source).__module__
    if module.startswith(("pandas", "polars")):
        counted = source.count()
        if hasattr(counted, "min"):  # of each column
            counted = counted.min()
        if _is_frame(counted):  # of one row, in polars
            counted = min(counted.row(0), default=0)
        return int(counted)
    if module.startswith("numpy"):
        if source.dtype.kind not in _COUNTED:
            return 1
        has_missing = source.dtype.kind in _MISSING
    else:
        has_missing = module.startswith("torch") and (source.is_floating_point() or source.is_complex())
    if not has_missing:
        return rows
    missing = source != source  # NaN, NaT
    return rows - int(missing.reshape(rows, -1).sum(0).max())


def _takes_rows_once(source: Any, key: Any) -> bool:
    """True if a key takes columns by name, or rows by a condition or slice, which take no row twice."""
    if isinstance(key, tuple) and key:
        # a condition together with a list would take items here and there
        others = (int, str, slice) if _shape(key[0]) is not None else (int, str, slice, list)
        return _chooses_rows(key[0]) and all(isinstance(part, others) for part in key[1:])
    names = key if isinstance(key, list) else [key]
    if names and all(type(name) is str for name in names):
        return _is_groups(source) or _is_frame(source)
    return _chooses_rows(key)


def _chooses_rows(key: Any) -> bool:
    if type(key) is slice:
        return True
    shape = _shape(key)
    is_condition = str(getattr(key, "dtype", "")).lower() in ("bool", "torch.bool", "boolean")
    return shape is not None and len(shape) == 1 and is_condition


def _is_part(source: Any, result: Any) -> bool:
    """True if the result has no more rows than its source, or is a group-by or indexer object."""
    rows, found = _rows(source), _rows(result)
    if found is None:
        return _is_groups(result) or type(result).__name__ in ("_LocIndexer", "_iLocIndexer")
    return rows is None or found <= rows


def _shape(obj: Any) -> tuple[int, ...] | None:
    shape = getattr(obj, "shape", None)
    return tuple(shape) if isinstance(shape, tuple) and shape else None


def _rows(obj: Any) -> int | None:
    shape = _shape(obj)
    return None if shape is None else int(shape[0])
