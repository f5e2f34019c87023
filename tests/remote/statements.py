"""Statements of public tutorials, done twice: on plain objects, and on pointers to the real data.

A file of `tests/remote/corpus` is a tutorial, retyped; its docstring names the source. It is never imported:
its statements are run one by one. A comment at the end of one says what is expected of it on pointers:

    frame = pd.DataFrame(…)  # shared             the owner shares it, with a mock of other numbers
    frame.age.mean()                              equal to the local result on the real data
    pd.cut(frame.age, 3)  # remote: MockUsed      refused so; equal with duet.remote(pandas) as pd
    frame.apply(abs)  # refused: OperationRefused
    frame.sample(3)  # random                     made at the owner, by draws that nobody can repeat

What was refused is placed at the owner anew from the local state, so that one refusal is counted once.
Of scikit-learn, SciPy and statsmodels, `duet.remote(module)` is taken from the start.
"""

from __future__ import annotations

import ast
import datetime
import importlib
import io
import math
import numbers
import pickle
import tokenize
import types
import warnings
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
import polars as pl
import polars.testing
import torch

from duetlink.data import values
from duetlink.duet.asking.recording.mock_used import MockUsed
from duetlink.duet.asking.recording.program import is_remote
from duetlink.duet.asking.recording.sizes import Shape
from duetlink.errors import DuetError, PrivateValue, UnsupportedValue
from tests.remote.told import SAW, Done, Recorder, Watched, told_of

EQUAL, REMOTE, REFUSED, RANDOM, SHARED, HANDLE = "equal", "remote", "refused", "random", "shared", "handle"
RTOL = 1e-6  # sums of floats are added in another order where the memory lies otherwise
_ATOL = 1e-12  # for what should be zero
_FAR = ("sklearn", "scipy", "statsmodels")  # of which duet.remote(module) is used from the start
CONSTANTS = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    list,
    tuple,
    dict,
    set,
    slice,
    datetime.date,
    datetime.timedelta,
    np.generic,
    np.random.Generator,
    type,
    types.FunctionType,
    torch.device,
    pd.Index,
)
_PLAIN = (np, pd, pl, torch)  # which know pointers by their own protocols, where they have one


@dataclass(frozen=True)
class Statement:
    """One statement of a file, with what is expected of it."""

    node: ast.stmt
    text: str
    line: int
    mark: str = EQUAL
    error: str = ""


@dataclass
class Report:
    """What became of the statements of one file."""

    outcomes: dict[str, int] = field(default_factory=dict)
    surprises: list[str] = field(default_factory=list)


def read(path: Path) -> list[Statement]:
    """The statements of a file. Raises ValueError for a mark that means nothing."""
    source = path.read_text("utf-8")
    marks = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT and token.line.strip() != token.string
    }
    tree = ast.parse(source)
    found = []
    for node in tree.body[1:]:  # the first is the docstring
        assert node.end_lineno is not None
        kind, _, error = marks.get(node.end_lineno, EQUAL).partition(": ")
        if kind not in (EQUAL, REMOTE, REFUSED, RANDOM, SHARED) or bool(error) != (kind in (REMOTE, REFUSED)):
            raise ValueError(f"{path.name}:{node.end_lineno}: no mark: {kind!r} {error!r}")
        text = ast.get_source_segment(source, node) or ""
        found.append(Statement(node, text, node.lineno, kind, error))
    return found


class Side(Protocol):
    """An owner who says yes, and a scientist."""

    def share(self, obj: Any, name: str, mock: Any) -> Any:
        """Share it; the scientist's pointer to it."""

    def remote(self, obj: Any) -> Any:
        """As of a duet."""

    def fetch(self, obj: Any) -> Any:
        """As of a duet."""


class Play:
    """One file, while it is played."""

    def __init__(self, side: Side, name: str) -> None:
        self._side = side
        self._name = name
        self._count = 0
        self._imported: set[str] = set()
        self.here: dict[str, Any] = {}
        self.there: dict[str, Any] = {SAW: Recorder()}
        self.done: list[Done] = []  # of the statements so far

    def play(self, statements: list[Statement]) -> Report:
        """Do all of them; surprises are in the report, with their lines."""
        report = Report()
        for statement in statements:
            self.done.append(Done())
            outcome, why = self._outcome(statement)
            report.outcomes[outcome] = report.outcomes.get(outcome, 0) + 1
            wanted = {HANDLE: EQUAL}.get(outcome, outcome)
            if (wanted, why if wanted in (REMOTE, REFUSED) else "") != (statement.mark, statement.error):
                report.surprises.append(
                    f"{self._name}:{statement.line}: {statement.text.splitlines()[0]}\n"
                    f"    expected {statement.mark} {statement.error}, met {outcome} {why}"
                )
        return report

    def _outcome(self, statement: Statement) -> tuple[str, str]:
        if isinstance(statement.node, (ast.Import, ast.ImportFrom)):
            self._import(statement)
            return EQUAL, ""
        draws = np.random.get_state(), torch.get_rng_state()
        result = run(statement.node, self.here)
        after = np.random.get_state(), torch.get_rng_state()
        if statement.mark == SHARED:
            for name in _stored(statement.node):
                self._share(name)
            return SHARED, ""
        _draw_from(*draws)
        refused = error = ""
        changed = _changed(statement.node)
        if statement.mark == REMOTE:
            trial = dict(self.there)
            error = _attempt(statement.node, trial)[0]
            self.there |= {name: self._side.remote(found) for name, found in self._modules().items()}
            _draw_from(*draws)
        watched, there = Watched(statement.node), self.there
        (refused, found), told = told_of(watched, there, lambda: _attempt(watched.node, there))
        self.done[-1].told += told
        if statement.mark == REMOTE:
            self.there |= self._modules()
            if error.partition(":")[0] not in ("MockUsed", "equal") and not refused:
                error = error.partition(":")[0]
        _draw_from(*after)
        if result is not None and isinstance(statement.node, ast.Expr):
            changed = _written(statement.node)
        if not refused:
            try:
                verdict = self._compare(result, found, changed, statement.mark)
            except DuetError as failed:  # at the owner
                refused, verdict = _named(failed), ""
            else:
                if statement.mark == REMOTE and verdict in (EQUAL, HANDLE):
                    return REMOTE, error.partition(":")[0]
                return verdict.partition(":")[0], verdict
        for name in changed:
            self._share(name)
        kind, _, words = refused.partition(":")
        return REFUSED, kind if kind == statement.error else f"{kind} ({words.strip()[:300]})"

    def _modules(self) -> dict[str, types.ModuleType]:
        found = {name: obj for name, obj in self.here.items() if isinstance(obj, types.ModuleType)}
        return {name: module for name, module in found.items() if module in _PLAIN}

    def _import(self, statement: Statement) -> None:
        run(statement.node, self.here)
        node = statement.node
        remote = self._side.remote
        assert isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names:
            module = node.module if isinstance(node, ast.ImportFrom) else alias.name
            assert module is not None
            name = alias.asname or alias.name.partition(".")[0]
            found = self.here[name]
            if module.partition(".")[0] in _FAR:
                if isinstance(found, types.ModuleType):
                    found = remote(found)
                else:
                    try:
                        found = getattr(remote(importlib.import_module(module)), alias.name)
                    except DuetError as error:
                        found = _Refused(error)
            self.there[name] = found
            self._imported.add(name)

    def _share(self, name: str) -> None:
        """Have the local object of that name at the owner, and a pointer to a copy of it."""
        self.done[-1].placed.append(name)
        if name not in self.here:
            self.there.pop(name, None)
            return
        if name in self._imported:
            return
        obj = _copied(self.here[name])  # what is done to the local one must not reach the owner
        try:
            mock = pickle.loads(pickle.dumps(twin(obj)))  # shares no memory, not even labels
            self._count += 1
            pointer = self._side.share(obj, f"{self._name} {self._count} {name}", mock)
        except _NoTwin:
            # a constant of the program stays; a handle cannot be made anew, and what uses it will fail
            self.there.pop(name, None)
            if isinstance(obj, CONSTANTS):
                self.there[name] = obj
            return
        own = "clone" if isinstance(obj, (torch.Tensor, pl.DataFrame, pl.Series)) else "copy"
        self.there[name] = getattr(pointer, own)()

    def _compare(self, result: Any, found: Any, changed: set[str], mark: str) -> str:
        """EQUAL, HANDLE, RANDOM, or `differs: why`."""
        pairs = [("result", result, found)]
        pairs += [(name, self.here.get(name), self.there.get(name)) for name in sorted(changed)]
        verdict = HANDLE
        for name, ours, theirs in pairs:
            if ours is None and theirs is None:
                continue
            if not is_value(ours):
                continue
            theirs = self._fetched(theirs)
            if mark == RANDOM:
                if type(ours) is not type(theirs):
                    return f"differs: {name} is a {type(theirs).__name__}, here a {type(ours).__name__}"
                return RANDOM
            why = difference(ours, theirs)
            if why:
                return f"differs: {name}: {why}"
            verdict = EQUAL
        return verdict

    def _fetched(self, obj: Any) -> Any:
        if is_remote(obj):
            return self._side.fetch(obj)
        if isinstance(obj, Shape):
            return tuple(obj)
        if type(obj) in (list, tuple):
            return type(obj)(map(self._fetched, obj))
        if isinstance(obj, tuple):  # a named one
            return tuple(map(self._fetched, obj))
        if type(obj) is dict:
            return {self._fetched(key): self._fetched(item) for key, item in obj.items()}
        if isinstance(obj, torch.nn.Module):
            return self._side.fetch(obj)
        return obj


class _Refused:
    """Something imported that is in no list: whoever uses it meets the refusal."""

    def __init__(self, error: DuetError) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        raise self._error

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        raise self._error


def run(node: ast.stmt, names: dict[str, Any]) -> Any:
    """The value of an expression, else None. What it prints is dropped; warnings of the libraries as well."""
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", MockUsed)
        if isinstance(node, ast.Expr):
            return eval(compile(ast.Expression(node.value), "corpus", "eval"), names)
        exec(compile(ast.Module([node], []), "corpus", "exec"), names)
        return None


def _attempt(node: ast.stmt, names: dict[str, Any]) -> tuple[str, Any]:
    """How a statement on pointers was refused, and what it made."""
    with warnings.catch_warnings(record=True) as caught, redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", MockUsed)
        try:
            if isinstance(node, ast.Expr):
                found = eval(compile(ast.Expression(node.value), "corpus", "eval"), names)
            else:
                exec(compile(ast.Module([node], []), "corpus", "exec"), names)
                found = None
        except Exception as error:
            return _named(error), None
    if caught:
        return f"MockUsed: {caught[0].message}", None
    return "", found


def _named(error: Exception) -> str:
    kind = PrivateValue if isinstance(error, PrivateValue) else type(error)  # or one more special
    return f"{kind.__name__}: {error}"


def _draw_from(numpys: Any, torchs: Any) -> None:
    np.random.set_state(numpys)
    torch.set_rng_state(torchs)


def _root(node: ast.AST) -> str | None:
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def _stored(node: ast.AST) -> set[str]:
    """Names that a statement binds, those of functions and classes left out."""
    return {
        part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    }


def _changed(node: ast.stmt) -> set[str]:
    """Names whose objects a statement binds or may write to."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return set()
    if isinstance(node, ast.Expr):  # a call that returns nothing has changed something
        root = _root(node.value)
        return {root} if root is not None and isinstance(node.value, ast.Call) else set()
    found = set() if isinstance(node, ast.For | ast.With) else _stored(node)
    for part in ast.walk(node):
        if isinstance(part, (ast.Assign, ast.Delete)):
            found |= {root for target in part.targets if (root := _root(target)) is not None}
        elif isinstance(part, (ast.AugAssign, ast.AnnAssign)):
            root = _root(part.target)
            found |= {root} if root is not None else set()
    return found


def bound_by(node: ast.stmt) -> set[str]:
    """Names that hold something else, or nothing, where a statement was not done."""
    return _changed(node) | _stored(node)


def _written(node: ast.stmt) -> set[str]:
    """Names of what is given as `out=`."""
    return {
        root
        for part in ast.walk(node)
        if isinstance(part, ast.keyword) and part.arg == "out" and (root := _root(part.value)) is not None
    }


def is_value(obj: Any) -> bool:
    """Whether it can travel; else its parts are what later statements compare."""
    if isinstance(obj, torch.nn.Module):
        return True
    if isinstance(obj, tuple) and hasattr(obj, "_fields"):
        return all(map(is_value, obj))
    if isinstance(obj, np.ndarray) and obj.dtype == object:
        return False
    if isinstance(obj, types.ModuleType | types.FunctionType | types.BuiltinFunctionType | type):
        return False
    try:
        values.encode(obj)
    except (UnsupportedValue, DuetError):
        return False
    return True


# -- mocks ---------------------------------------------------------------------------------------------------


class _NoTwin(Exception):
    """A constant, or something of no library here: it stays as it is."""


def _copied(obj: Any) -> Any:
    if isinstance(obj, torch.Tensor):
        return obj.detach().clone()
    return obj.copy() if isinstance(obj, np.ndarray | pd.Series | pd.DataFrame) else obj


def twin(obj: Any) -> Any:
    """An object of the same types, labels and classes, with other numbers in another order."""
    if isinstance(obj, np.ndarray) and obj.ndim and obj.dtype != object:
        return _other(obj)
    if isinstance(obj, torch.Tensor) and obj.ndim:
        return torch.from_numpy(_other(obj.detach().numpy())).clone()
    if isinstance(obj, pd.Series):
        return pd.Series(_column(obj), index=obj.index, name=obj.name, copy=True)
    if isinstance(obj, pd.DataFrame):
        columns = {number: _column(obj.iloc[:, number]) for number in range(obj.shape[1])}
        made = pd.DataFrame(columns, index=obj.index, copy=True)
        made.columns = obj.columns
        return made
    if isinstance(obj, pl.Series):
        return pl.Series(obj.name, _series(obj))
    if isinstance(obj, pl.DataFrame):
        return obj.with_columns([_series(column).alias(column.name) for column in obj])
    if isinstance(obj, pd.Index) and len(obj):
        return type(obj)(_column(pd.Series(obj)).array, name=obj.name)
    raise _NoTwin


def _other(array: np.ndarray) -> np.ndarray:
    rolled = np.roll(array.reshape(-1), 1)
    if array.ndim == 1 and array.dtype.kind == "f" and len(array) > 1 and (np.diff(array) > 0).all():
        rolled = array * 0.83 + 0.21  # in order where they were
    elif array.dtype.kind in "fc":
        rolled = (rolled * 0.83 + 0.21).astype(array.dtype)
    elif array.dtype.kind in "iu":
        if len(np.unique(rolled)) * 2 > len(rolled):
            rolled = rolled + rolled.dtype.type(1)
        elif len(rolled) > 1:  # classes: other counts of the same ones
            rolled[0] = (
                rolled[np.flatnonzero(rolled != rolled[0])[0]]
                if (rolled != rolled[0]).any()
                else rolled[0] + 1
            )
    return np.ascontiguousarray(rolled.reshape(array.shape))


def _column(column: pd.Series) -> pd.Series:
    rolled = column.iloc[np.roll(np.arange(len(column)), 1)].copy(deep=True)
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "fiu":
        rolled = pd.Series(_other(column.to_numpy()))
    elif isinstance(column.dtype, np.dtype) and column.dtype.kind in "Mm" and len(column):
        rolled = column + pd.Timedelta(days=1)  # in order where they were
    rolled.index = column.index
    return rolled


def _series(column: pl.Series) -> pl.Series:
    if column.dtype.is_temporal():
        return column.dt.offset_by("1d")  # in order where they were
    order = np.roll(np.arange(len(column)), 1)
    rolled = column.gather(order)
    if column.dtype.is_float():
        return rolled * 0.83 + 0.21
    if column.dtype.is_integer() and column.n_unique() * 2 > len(column):
        return (rolled + 1).cast(column.dtype)
    return rolled


# -- comparing -----------------------------------------------------------------------------------------------


def difference(ours: Any, theirs: Any) -> str:
    """In what the second object differs from the first; empty: in nothing but the last digits of floats."""
    try:
        return "; ".join(_differences(ours, theirs))
    except AssertionError as error:
        return str(error)[:600]


def _differences(ours: Any, theirs: Any) -> Iterator[str]:
    if isinstance(ours, tuple) and hasattr(ours, "_fields"):
        ours = tuple(ours)
    if isinstance(theirs, tuple) and hasattr(theirs, "_fields"):
        theirs = tuple(theirs)
    if isinstance(ours, numbers.Number) and isinstance(theirs, numbers.Number):
        if isinstance(ours, bool | np.bool_) != isinstance(theirs, bool | np.bool_) or not _near(
            ours, theirs
        ):
            yield f"{theirs!r}, here {ours!r}"
        return
    if type(ours) is not type(theirs):
        yield f"it is a {type(theirs).__name__}, here a {type(ours).__name__}"
    elif isinstance(ours, pd.DataFrame):
        pd.testing.assert_frame_equal(theirs, ours, rtol=RTOL, atol=_ATOL)
    elif isinstance(ours, pd.Series):
        pd.testing.assert_series_equal(theirs, ours, rtol=RTOL, atol=_ATOL)
    elif isinstance(ours, pd.Index):
        pd.testing.assert_index_equal(theirs, ours, rtol=RTOL, atol=_ATOL)
    elif isinstance(ours, torch.Tensor):
        torch.testing.assert_close(theirs.detach(), ours.detach(), rtol=1e-5, atol=1e-6, equal_nan=True)
    elif isinstance(ours, pl.DataFrame | pl.Series | pl.LazyFrame):
        check: Any = (
            pl.testing.assert_series_equal if isinstance(ours, pl.Series) else pl.testing.assert_frame_equal
        )
        check(theirs, ours, rel_tol=RTOL, abs_tol=_ATOL)
    elif isinstance(ours, np.ndarray):
        assert ours.dtype == theirs.dtype, f"dtype {theirs.dtype}, here {ours.dtype}"
        assert ours.shape == theirs.shape, f"shape {theirs.shape}, here {ours.shape}"
        if ours.dtype.kind in "fc":
            np.testing.assert_allclose(theirs, ours, rtol=RTOL, atol=_ATOL)
        else:
            np.testing.assert_array_equal(theirs, ours)
    elif isinstance(ours, torch.nn.Module):
        yield from _differences(dict(ours.state_dict()), dict(theirs.state_dict()))
    elif isinstance(ours, list | tuple):
        if len(ours) != len(theirs):
            yield f"{len(theirs)} items, here {len(ours)}"
        for one, other in zip(ours, theirs, strict=False):
            yield from _differences(one, other)
    elif isinstance(ours, dict):
        if list(ours) != list(theirs):
            yield f"keys {list(theirs)!r}, here {list(ours)!r}"
        for key in ours.keys() & theirs.keys():
            yield from _differences(ours[key], theirs[key])
    elif not bool(ours == theirs) and not (pd.isna(ours) is True and pd.isna(theirs) is True):
        assert isinstance(ours, str | bytes | datetime.date | datetime.timedelta | object)
        yield f"{theirs!r}, here {ours!r}"


def _near(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, complex) or isinstance(theirs, complex):
        return bool(np.isclose(theirs, ours, rtol=RTOL, atol=_ATOL))
    if math.isnan(ours) or math.isnan(theirs):
        return math.isnan(ours) and math.isnan(theirs)
    return math.isclose(ours, theirs, rel_tol=RTOL, abs_tol=_ATOL)
