"""Mates: objects with the schema of a mock that differ as much as they can from it and from each other.

Theory. A fact that a mock shows, such as the length of a result, is true of the data only if it is the same
for all data of the schema. Three mates search for a counterexample: the program runs on each of them, and a
fact in which they differ is kept private. No mate differs in everything, since one difference hides others:
missing items make an estimator fail, which hides that the number of classes differs.

                    GAPS                     BEYOND                        TIES
    numbers         near the mock's          0, far beyond both ends       few of the mock's, uneven
    whole numbers   the mock's               above the greatest            few of the mock's, uneven
    missing         a quarter, if the        none                          none
                    dtype allows it
    row labels      the mock's               in another order, some new    repeated
    texts           the mock's               empty, words, digits, a date  few of the mock's
    booleans        a fifth are true         half                          four fifths
    columns                                                                the last equals the first

The constants of the program and their neighbours are among the values of BEYOND and TIES: on a mock whose
ages end at 40, `frame[frame.age > 50]` is empty, and on these mates it is not. The seed is made from the kind
and the object's name, without clock or system entropy: the same mock and constants always have the same
mates.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

GAPS, BEYOND, TIES = KINDS = ("gaps", "beyond", "ties")

Constant = int | float | str

_SHARES = {GAPS: 0.2, BEYOND: 0.5, TIES: 0.8}  # the share of booleans that are true
_MISSING = 0.25  # the share of missing items in GAPS
_NEW_LABELS = 4  # new row labels; with the constants, they take at most half of the rows
_FEW = 3  # different values in TIES, without the constants
_MOST_CONSTANTS = 64
_MOST_ROWS = 10_000  # later rows are the mock's own, so that the mate of a large mock is cheap
_TEXTS = ("", "a b c d", "17", "2001-02-03")
_TIMES = ("1960-02-29", "2051-07-01")
_MOST_FLOAT = 1e30


def mate(mock: Any, kind: str, name: str, constants: Sequence[Constant] = ()) -> Any:
    """Return the mate of a mock, of a kind from KINDS. An object of an unknown type is its own mate.

    Objects with a different `name` get missing items and new labels at different positions, so that these
    never coincide.
    """
    seed = KINDS.index(kind), zlib.crc32(name.encode())
    return _mate(mock, kind, tuple(constants)[:_MOST_CONSTANTS], seed)


def _mate(mock: Any, kind: str, constants: Sequence[Constant], seed: tuple[int, ...]) -> Any:
    library = type(mock).__module__.partition(".")[0]
    if len(getattr(mock, "shape", ())) > 0 and len(mock) > _MOST_ROWS:
        rows = mock.iloc if hasattr(mock, "iloc") else mock
        return _joined(_mate(rows[:_MOST_ROWS], kind, constants, seed), rows[_MOST_ROWS:])
    if library == "pandas":
        return _of_pandas(mock, kind, constants, seed)
    if library == "polars":
        return _of_polars(mock, kind, constants, seed)
    if library == "torch" and hasattr(mock, "numpy"):
        return _of_torch(mock, kind, constants, seed)
    if isinstance(mock, np.ndarray):
        return _of_array(mock, kind, constants, seed)
    if type(mock) in (list, tuple):
        return type(mock)(_mate(item, kind, constants, (*seed, index)) for index, item in enumerate(mock))
    if type(mock) is dict:
        return {
            key: _mate(item, kind, constants, (*seed, index))
            for index, (key, item) in enumerate(mock.items())
        }
    if type(mock) in (bool, int, float, str):
        return _of_array(np.array([mock]), kind, constants, seed).item()
    return mock


def _joined(first: Any, others: Any) -> Any:
    library = sys.modules[type(others).__module__.partition(".")[0]]
    if hasattr(others, "append") and hasattr(others, "nlevels"):
        return first.append(others)
    return getattr(library, "cat" if library.__name__ == "torch" else "concat")([first, others])


# -- one column ----------------------------------------------------------------------------------------------


class _Column(Protocol):
    """The values of one dtype, in whatever library."""

    values: Any
    family: str  # "bool", "int", "float", "text", "time" or "other"

    def __len__(self) -> int: ...

    def greatest(self) -> float:
        """Return the greatest absolute value of the finite numbers; 0 if there are none."""

    def has_negative(self) -> bool: ...

    def extended(self, values: Sequence[Any]) -> _Column:
        """Append the items of `values` that the dtype can represent."""

    def taken(self, picks: np.ndarray) -> _Column:
        """Return the items at these positions."""

    def scaled(self, factors: np.ndarray) -> _Column:
        """Multiply each number by its factor."""

    def missing(self, gaps: np.ndarray) -> _Column:
        """Make the masked items missing; return the column unchanged if its dtype has no missing values."""


def _unlike(column: _Column, kind: str, constants: Sequence[Constant], seed: tuple[int, ...]) -> _Column:
    """Return another column of the same length and dtype, changed as the module's table says for `kind`."""
    count, random = len(column), np.random.default_rng(seed)
    if not count:
        return column
    if column.family == "bool":
        true = min(max(1, round(count * _SHARES[kind])), max(1, count - 1))
        both = column.extended([False, True])
        return both.taken(random.permutation(np.r_[np.full(true, count + 1), np.full(count - true, count)]))
    if kind == GAPS:
        made = column.taken(random.permutation(count))
        if column.family == "float":
            made = made.scaled(random.uniform(0.5, 1.5, count))
        gaps = random.random(count) < _MISSING
        gaps[random.integers(count)] = True
        return made.missing(gaps)
    compared = _near(column.family, constants)
    if kind == BEYOND:
        pool = column.extended([*_beyond(column), *compared])
        new = random.permutation(np.arange(count, len(pool)))[:count]
        others = np.arange(count, len(pool)) if len(pool) > count else np.arange(count)
        rest = np.r_[random.choice(others, count), random.integers(count, size=count)]
        return pool.taken(random.permutation(np.r_[new, random.permutation(rest)[: count - len(new)]]))
    few = random.permutation(count)[:_FEW]
    pool = column.taken(few).extended(compared)
    shares = 1.0 / np.arange(1, len(pool) + 1)
    picks = np.sort(random.choice(len(pool), count, p=shares / shares.sum()))
    picks[: min(count, len(pool))] = np.arange(len(pool))[:count][::-1]
    return pool.taken(random.permutation(picks))


def _beyond(column: _Column) -> list[Any]:
    """Return values that a mock of this column is unlikely to have."""
    if column.family == "float":
        most = min(column.greatest() or 1.0, _MOST_FLOAT)
        return [0.0, 3 * most, -2 * most]
    if column.family == "int":
        most = int(column.greatest())
        return [most + 1, most + 2, *([-most - 1] if column.has_negative() else [])]
    return list({"text": _TEXTS, "time": _TIMES}.get(column.family, ()))


def _near(family: str, constants: Sequence[Constant]) -> list[Any]:
    """Return the constants that a column of this family may be compared with, and their neighbours."""
    if family in ("int", "float"):
        numbers = [one for one in constants if not isinstance(one, str) and abs(one) < _MOST_FLOAT]
        kept = [one for one in numbers if family == "float" or one == int(one)]
        return list(dict.fromkeys(near for one in kept for near in (one, one - 1, one + 1)))
    texts = [one for one in constants if type(one) is str]
    if family == "text":
        return list(dict.fromkeys(near for one in texts for near in (one, f"{one} {one}")))
    return texts if family == "time" else []


_FAMILIES = {"b": "bool", "i": "int", "u": "int", "f": "float", "U": "text", "S": "text", "T": "text"}
_FAMILIES |= {"M": "time"}


class _Array:
    """A one-dimensional NumPy array."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values
        self.family = _FAMILIES.get(values.dtype.kind, "other")

    def __len__(self) -> int:
        return len(self.values)

    def greatest(self) -> float:
        found = np.abs(self.values[np.isfinite(self.values)].astype(np.float64))
        return float(found.max()) if found.size else 0.0

    def has_negative(self) -> bool:
        return bool((self.values < 0).any())

    def extended(self, values: Sequence[Any]) -> _Array:
        dtype = self.values.dtype
        fitting = [made for value in values if (made := _converted(value, dtype)) is not None]
        wide = np.array(fitting) if dtype.kind in "US" and fitting else np.array(fitting, dtype)
        return _Array(np.concatenate([self.values, wide]))

    def taken(self, picks: np.ndarray) -> _Array:
        return _Array(self.values[picks])

    def scaled(self, factors: np.ndarray) -> _Array:
        return _Array((self.values * factors).astype(self.values.dtype))

    def missing(self, gaps: np.ndarray) -> _Array:
        if self.values.dtype.kind not in "fcmM":
            return self
        values = self.values.copy()
        values[gaps] = np.nan if values.dtype.kind in "fc" else np.array("NaT", values.dtype)
        return _Array(values)


def _converted(value: Any, dtype: np.dtype[Any]) -> Any:
    """Convert a value to the dtype; None if the dtype cannot represent it."""
    try:
        if dtype.kind in "iu":
            return value if np.iinfo(dtype).min <= value <= np.iinfo(dtype).max else None
        made = np.array(value.encode() if dtype.kind == "S" else value, None if dtype.kind in "US" else dtype)
        return None if made.dtype.kind == "f" and not np.isfinite(made) else made[()]
    except (ValueError, TypeError, OverflowError):
        return None


def _of_array(array: np.ndarray, kind: str, constants: Sequence[Constant], seed: tuple[int, ...]) -> Any:
    if array.dtype.names is not None or array.dtype.kind in "OV":
        return array
    column = _unlike(_Array(np.ascontiguousarray(array).reshape(-1)), kind, constants, seed)
    made: np.ndarray = column.values.reshape(array.shape)
    if kind == TIES and made.ndim == 2 and made.shape[1] > 1:
        made[:, -1] = made[:, 0]
    return made


def _of_torch(tensor: Any, kind: str, constants: Sequence[Constant], seed: tuple[int, ...]) -> Any:
    torch = sys.modules["torch"]
    if tensor.layout is not torch.strided or tensor.dtype is torch.bfloat16 or tensor.is_quantized:
        return tensor
    array = np.asarray(_of_array(tensor.detach().numpy(), kind, constants, seed))
    return torch.from_numpy(array.copy())


# -- pandas --------------------------------------------------------------------------------------------------


class _Series:
    """A pandas series."""

    def __init__(self, values: Any) -> None:
        self.values = values
        kind = getattr(values.dtype, "kind", "O")
        self.family = _FAMILIES.get(kind, "other")
        if self.family == "other" and sys.modules["pandas"].api.types.infer_dtype(values) == "string":
            self.family = "text"

    def __len__(self) -> int:
        return len(self.values)

    def greatest(self) -> float:
        return _Array(self.values.dropna().to_numpy()).greatest()

    def has_negative(self) -> bool:
        return bool((self.values.dropna() < 0).any())

    def extended(self, values: Sequence[Any]) -> _Series:
        pandas = sys.modules["pandas"]
        together = self._made(list(values))
        if together is not None:
            return _Series(pandas.concat([self.values, together], ignore_index=True))
        fitting = [made for value in values if (made := self._made([value])) is not None]
        return _Series(pandas.concat([self.values, *fitting], ignore_index=True)) if fitting else self

    def taken(self, picks: np.ndarray) -> _Series:
        return _Series(self.values.iloc[picks].reset_index(drop=True))

    def scaled(self, factors: np.ndarray) -> _Series:
        return _Series((self.values * factors).astype(self.values.dtype))

    def missing(self, gaps: np.ndarray) -> _Series:
        gone = self.values.mask(gaps)
        return _Series(gone) if gone.dtype == self.values.dtype else self

    def _made(self, given: list[Any]) -> Any:
        """Return a series of these values; None if the dtype cannot represent all of them."""
        pandas, dtype = sys.modules["pandas"], self.values.dtype
        try:
            if self.family == "time":
                given = [self._instant(value) for value in given]
            made = pandas.Series(given, dtype=dtype)
            return made if made.dtype == dtype and made.notna().all() else None
        except (ValueError, TypeError, OverflowError):
            return None

    def _instant(self, value: Any) -> Any:
        made = sys.modules["pandas"].Timestamp(value)
        return made.tz_localize(getattr(self.values.dtype, "tz", None)) if made.tz is None else made


def _of_pandas(obj: Any, kind: str, constants: Sequence[Constant], seed: tuple[int, ...]) -> Any:
    pandas = sys.modules["pandas"]
    if isinstance(obj, pandas.DataFrame):
        index = _labels(obj.index, kind, constants, seed)
        columns = [
            _column(obj.iloc[:, number], kind, constants, (*seed, number)).set_axis(index)
            for number in range(obj.shape[1])
        ]
        if kind == TIES and len(columns) > 1 and columns[-1].dtype == columns[0].dtype:
            columns[-1] = columns[0].copy()
        made = pandas.DataFrame(dict(enumerate(columns)), index=index)
        made.columns = obj.columns
        return made
    if isinstance(obj, pandas.Series):
        made = _column(obj, kind, constants, (*seed, 0))
        return made.set_axis(_labels(obj.index, kind, constants, seed)).rename(obj.name)
    if isinstance(obj, pandas.Index):
        return _labels(obj, kind, constants, seed)
    return obj


def _column(series: Any, kind: str, constants: Sequence[Constant], seed: tuple[int, ...]) -> Any:
    return _unlike(_Series(series.reset_index(drop=True)), kind, constants, seed).values


def _labels(index: Any, kind: str, constants: Sequence[Constant], seed: tuple[int, ...]) -> Any:
    """Return the row labels of a mate. Row labels are data, so they differ as values do."""
    pandas, count = sys.modules["pandas"], len(index)
    if kind == GAPS or not count:
        return index
    random = np.random.default_rng((*seed, count))
    if isinstance(index, pandas.MultiIndex):
        picks = random.permutation(count) if kind == BEYOND else np.sort(random.integers(count, size=count))
        return index.take(picks)
    column = _Series(pandas.Series(index.to_numpy() if type(index) is pandas.RangeIndex else index))
    compared, quarter = _near(column.family, constants), max(1, count // _NEW_LABELS)
    if kind == BEYOND:
        wide = column.extended([*compared, *_new_labels(column, int(random.integers(2, 50)))])
        new = np.arange(count, len(wide))[: 2 * quarter]
        old = random.permutation(count)[: max(0, count - len(new))]
        made = wide.taken(random.permutation(np.r_[new, old])[:count]).values
    else:
        wide = column.extended(compared)
        once = np.r_[np.arange(count, len(wide))[:quarter], random.permutation(count)]
        made = wide.taken(np.repeat(once, 2)[:count]).values
        if index.is_monotonic_increasing:
            made = made.sort_values(ignore_index=True)
    return pandas.Index(made, dtype=index.dtype, name=index.name)


def _new_labels(column: _Series, step: int) -> list[Any]:
    if column.family == "int":
        return [int(column.greatest()) + step * number for number in range(1, _NEW_LABELS + 1)]
    if column.family == "time":
        last, first = column.values.max(), column.values.min()
        apart = sys.modules["pandas"].Timedelta(days=step)
        return [last + apart, first - apart]
    return [*_TEXTS, f"label {step}"] if column.family == "text" else []


# -- Polars --------------------------------------------------------------------------------------------------


class _PolarsSeries:
    """A Polars series."""

    def __init__(self, values: Any) -> None:
        polars = sys.modules["polars"]
        self.values, dtype = values, values.dtype
        self.family = "other"
        if dtype == polars.Boolean:
            self.family = "bool"
        elif dtype.is_integer():
            self.family = "int"
        elif dtype.is_float():
            self.family = "float"
        elif dtype == polars.String:
            self.family = "text"
        elif dtype in (polars.Date, polars.Datetime):
            self.family = "time"

    def __len__(self) -> int:
        return len(self.values)

    def greatest(self) -> float:
        return _Array(self.values.drop_nulls().to_numpy()).greatest()

    def has_negative(self) -> bool:
        return bool((self.values < 0).any())

    def extended(self, values: Sequence[Any]) -> _PolarsSeries:
        found = [made for value in values if (made := self._made(value)) is not None]
        return _PolarsSeries(sys.modules["polars"].concat([self.values, *found]))

    def taken(self, picks: np.ndarray) -> _PolarsSeries:
        return _PolarsSeries(self.values.gather(picks.tolist()))

    def scaled(self, factors: np.ndarray) -> _PolarsSeries:
        polars = sys.modules["polars"]
        return _PolarsSeries((self.values * polars.Series(factors)).cast(self.values.dtype))

    def missing(self, gaps: np.ndarray) -> _PolarsSeries:
        polars = sys.modules["polars"]
        return _PolarsSeries(
            self.values.zip_with(
                polars.Series(~gaps),
                polars.Series([None], dtype=self.values.dtype).new_from_index(0, len(gaps)),
            )
        )

    def _made(self, value: Any) -> Any:
        polars, dtype, name = sys.modules["polars"], self.values.dtype, self.values.name
        try:
            if self.family == "time":
                return polars.Series(name, [value]).str.to_datetime(strict=True).cast(dtype)
            return polars.Series(name, [value], dtype=dtype, strict=True)
        except (TypeError, OverflowError, polars.exceptions.PolarsError):
            return None


def _of_polars(obj: Any, kind: str, constants: Sequence[Constant], seed: tuple[int, ...]) -> Any:
    polars = sys.modules["polars"]
    if isinstance(obj, polars.DataFrame):
        made = [
            _unlike(_PolarsSeries(column), kind, constants, (*seed, index)).values.alias(column.name)
            for index, column in enumerate(obj)
        ]
        if kind == TIES and len(made) > 1 and made[-1].dtype == made[0].dtype:
            made[-1] = made[0].alias(made[-1].name)
        return obj.with_columns(made)
    if isinstance(obj, polars.LazyFrame):
        return _of_polars(obj.collect(), kind, constants, seed).lazy()
    if isinstance(obj, polars.Series):
        return _unlike(_PolarsSeries(obj), kind, constants, seed).values.alias(obj.name)
    return obj
