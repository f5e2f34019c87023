"""Twelve other data sets of the same schema for whatever a tutorial shares, and the tutorial run on each.

They are made from types, lengths and names, and know nothing of how mocks or their mates are made. A plain
value that pointers have told (`tests/remote/told.py`) is compared with what the same expression is in each
of them: where it differs, a fact of the mock was told as one of the data.
"""

from __future__ import annotations

import copy
import types
import zlib
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import torch

from tests.remote.statements import CONSTANTS, Statement, bound_by, run
from tests.remote.told import SAW, Done, Recorder, Told, Watched, differs

_MOST_NAMES = 30  # of new words, labels and the like


@dataclass(frozen=True)
class World:
    """How its data are drawn: see the functions below for what the words mean."""

    name: str
    numbers: str = "as ever"
    missing: float = 0.0  # the part of items, where a type has a word for that
    words: str = "as ever"
    labels: str = "as ever"


WORLDS = (
    World("drawn again"),
    World("half missing", missing=0.5),
    World("in another order", labels="shuffled"),
    World("few numbers", numbers="few", words="one"),
    World("all the same", numbers="one", words="one"),
    World("all different", numbers="distinct", words="distinct"),
    World("below zero", numbers="negative", words="new", missing=0.1),
    World("large", numbers="large", words="new", labels="shuffled"),
    World("other labels", labels="new", words="as ever"),
    World("repeated labels", numbers="few", labels="repeated"),
    World("nearly empty", missing=0.9, words="distinct"),
    World("in order", numbers="sorted", words="sorted"),
)


# -- other data ----------------------------------------------------------------------------------------------


class NoOther(Exception):
    """An object with no data: a constant of the program, or a handle."""


def other(obj: Any, world: World, name: str) -> Any:
    """An object of the same type, shape, names and types of items, as it is in a world."""
    rng = np.random.default_rng(zlib.crc32(f"{world.name} {name}".encode()))
    if isinstance(obj, np.ndarray) and obj.ndim and obj.dtype != object:
        return _array(obj, world, rng)
    if isinstance(obj, torch.Tensor) and obj.ndim:
        made = torch.from_numpy(_array(obj.detach().numpy(), world, rng))
        return made.requires_grad_(obj.requires_grad)
    if isinstance(obj, pd.Series):
        return _column(obj, world, rng).set_axis(_index(obj.index, world, rng)).rename(obj.name)
    if isinstance(obj, pd.DataFrame):
        index = _index(obj.index, world, rng)
        columns = {place: _column(obj.iloc[:, place], world, rng) for place in range(obj.shape[1])}
        made = pd.DataFrame(columns, index=range(len(obj)))
        return made.set_axis(index, axis=0).set_axis(obj.columns, axis=1)
    if isinstance(obj, pl.Series):
        return _series(obj, world, rng)
    if isinstance(obj, pl.DataFrame):
        return obj.with_columns([_series(column, world, rng) for column in obj])
    raise NoOther


def _array(array: np.ndarray, world: World, rng: np.random.Generator) -> np.ndarray:
    flat = array.reshape(-1)
    if array.dtype.kind == "b":
        flat = rng.random(flat.size) < (0.9 if world.numbers == "as ever" else 0.1)
    elif array.dtype.kind in "iu":
        flat = _whole(flat, world, rng)
    elif array.dtype.kind in "fc":
        flat = _floats(flat, world, rng)
    elif array.dtype.kind in "Mm":
        flat = flat[rng.integers(0, flat.size, flat.size)] if flat.size else flat
    elif array.dtype.kind in "US" and flat.size:
        drawn = [str(one) for one in _words([str(one) for one in flat], world, rng)]
        flat = np.array(drawn).astype(array.dtype)
    return np.ascontiguousarray(flat.astype(array.dtype).reshape(array.shape))


def _whole(found: np.ndarray, world: World, rng: np.random.Generator) -> np.ndarray:
    if not found.size:
        return found
    info = np.iinfo(found.dtype)
    low, high = int(found.min()), int(found.max())
    if world.numbers == "one":
        return np.full(found.size, low, found.dtype)
    if world.numbers == "distinct" and info.max > low + found.size:
        return low + rng.permutation(found.size)
    if world.numbers == "large" and info.max > 10**6:
        return rng.integers(10**3, 10**6, found.size)
    if world.numbers == "negative" and info.min < 0:
        return -rng.integers(0, max(abs(low), abs(high), 1) + 1, found.size)
    if world.numbers == "few":
        return rng.choice([low, high], found.size)
    drawn = rng.integers(low, high, found.size, endpoint=True)
    return np.sort(drawn) if world.numbers == "sorted" else drawn


def _floats(found: np.ndarray, world: World, rng: np.random.Generator) -> np.ndarray:
    if world.numbers == "one":
        drawn = np.full(found.size, 1.5)
    elif world.numbers == "few":
        drawn = rng.choice([0.0, 2.5], found.size)
    elif world.numbers == "negative":
        drawn = -rng.exponential(3.0, found.size)
    elif world.numbers == "large":
        drawn = rng.normal(0, 1e6, found.size)
    else:
        drawn = rng.normal(1, 2, found.size)
    drawn = np.sort(drawn) if world.numbers == "sorted" else drawn
    return np.where(rng.random(found.size) < world.missing, np.nan, drawn)


def _words(found: Sequence[Any], world: World, rng: np.random.Generator) -> list[Any]:
    known = sorted({one for one in found if isinstance(one, str)}) or ["a"]
    if world.words == "one":
        known = known[:1]
    elif world.words == "distinct":
        return [f"{known[0]} {number}" for number in range(len(found))]
    elif world.words == "new":
        known = [f"other {number}" for number in range(min(len(known) + 3, _MOST_NAMES))]
    drawn = [str(one) for one in rng.choice(known, len(found))]
    return sorted(drawn) if world.words == "sorted" else drawn


def _column(column: pd.Series, world: World, rng: np.random.Generator) -> pd.Series:
    """The items of a column, counted from 0."""
    dtype, size = column.dtype, len(column)
    if isinstance(dtype, np.dtype) and dtype.kind not in "OMm":
        return pd.Series(_array(column.to_numpy(), world, rng))
    holds_words = all(isinstance(one, str) or pd.isna(one) is True for one in column)
    if isinstance(dtype, pd.CategoricalDtype):
        drawn = list(rng.choice(len(dtype.categories), size)) if len(dtype.categories) else [-1] * size
        drawn = [-1 if rng.random() < world.missing else one for one in drawn]
        return pd.Series(pd.Categorical.from_codes(drawn, dtype=dtype))
    if holds_words and size:
        drawn = _words(list(column), world, rng)
    else:
        drawn = [column.iloc[place] for place in rng.integers(0, size, size)] if size else []
    absent = None if dtype.kind == "O" else pd.NA if not isinstance(dtype, np.dtype) else pd.NaT
    if isinstance(dtype, (pd.DatetimeTZDtype, pd.PeriodDtype)):
        absent = pd.NaT
    kept = [absent if rng.random() < world.missing else one for one in drawn]
    return pd.Series(kept, dtype=dtype)


def _index(index: pd.Index, world: World, rng: np.random.Generator) -> pd.Index:
    """Labels are data: other ones of the same kind, or the same in another order."""
    if not len(index) or world.labels == "as ever":
        return index
    if world.labels == "shuffled":
        return index[rng.permutation(len(index))]
    if world.labels == "repeated":
        return index[rng.integers(0, max(len(index) // 2, 1), len(index))]
    if isinstance(index, pd.DatetimeIndex):
        return index + pd.Timedelta(days=40_000)
    if isinstance(index, pd.MultiIndex) or not isinstance(index.dtype, np.dtype):
        return index
    if index.dtype.kind in "iuf":
        return index + 1_000
    return pd.Index([f"{one} again" for one in index], name=index.name) if index.dtype == object else index


def _series(column: pl.Series, world: World, rng: np.random.Generator) -> pl.Series:
    dtype, size = column.dtype, len(column)
    if not size:
        return column
    if dtype.is_float() or dtype.is_integer():
        present = column.fill_null(1).to_numpy()
        drawn: Any = _array(present, world, rng).tolist()
    elif dtype == pl.String:
        drawn = _words(column.to_list(), world, rng)
    elif dtype == pl.Boolean:
        drawn = (rng.random(size) < 0.7).tolist()
    else:
        drawn = column.gather(rng.integers(0, size, size)).to_list()
    drawn = [None if rng.random() < world.missing else one for one in drawn]
    return pl.Series(column.name, drawn, dtype=dtype, strict=False)


# -- the tutorial in each of them ----------------------------------------------------------------------------


@dataclass
class Comparison:
    """How many values were told, how many of them were met in at least six worlds, and which differed."""

    told: int = 0
    compared: int = 0
    differences: list[str] = field(default_factory=list)


def compare(statements: Sequence[Statement], done: Sequence[Done]) -> Comparison:
    """Run the statements locally on the data of each world, and compare what pointers have told."""
    found, base = Comparison(), dict[str, Any]()
    places = [dict[str, Any]({SAW: Recorder()}) for _ in WORLDS]
    for statement, one in zip(statements, done, strict=True):
        draws = np.random.get_state(), torch.get_rng_state()
        result = run(statement.node, base)
        after = np.random.get_state(), torch.get_rng_state()
        watched = Watched(statement.node)
        # an expression that makes something changes nothing
        lost = set() if result is not None else bound_by(statement.node) - _modules(base)
        met = []
        for names in places:
            np.random.set_state(draws[0])
            torch.set_rng_state(draws[1])
            met.append(_met(watched, names, lost))
        np.random.set_state(after[0])
        torch.set_rng_state(after[1])
        for told in one.told:
            found.told += 1
            found.compared += _agreeing(told, met, statement, found.differences) >= 6
        for name in one.placed:
            _place(name, base, places, f"{statement.line} {name}")
    return found


def _modules(names: dict[str, Any]) -> set[str]:
    return {name for name, obj in names.items() if isinstance(obj, types.ModuleType)}


def _met(watched: Watched, names: dict[str, Any], lost: AbstractSet[str]) -> dict[tuple[int, int], Any]:
    """What the expressions of a statement are in one world. None, if it cannot be done there, and then the
    names `lost` are gone.
    """
    try:
        met: dict[tuple[int, int], Any] = names[SAW].during(lambda: run(watched.node, names))[1]
        return met
    except Exception:  # what depends on it is not done either
        for name in lost:
            names.pop(name, None)
        return {}


def _agreeing(told: Told, met: Sequence[Any], statement: Statement, differences: list[str]) -> int:
    """In how many worlds a told value was met. Those where it differs are noted."""
    key, count = (told.expression, told.time), 0
    for world, seen in zip(WORLDS, met, strict=True):
        if key in seen:
            count += 1
            if differs(told.value, seen[key]):
                differences.append(
                    f"line {statement.line}: {told.text} was told as {told.value!r}; {world.name!r} has "
                    f"{seen[key]!r}"
                )
    return count


def _place(name: str, base: dict[str, Any], places: Sequence[dict[str, Any]], seed: str) -> None:
    for world, names in zip(WORLDS, places, strict=True):
        if name not in base:
            names.pop(name, None)
            continue
        try:
            names[name] = other(base[name], world, seed)
        except NoOther:
            if isinstance(base[name], CONSTANTS):
                names[name] = copy.deepcopy(base[name])
