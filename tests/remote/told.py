"""What leaves the world of pointers while a tutorial is played: the plain values of its statements and of the
expressions in them, wherever a pointer takes part. They have to be the same for any data of the schema.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import torch
from pandas.api.extensions import ExtensionDtype

from duetlink.duet.asking.recording.program import is_remote
from duetlink.duet.asking.recording.sizes import Shape

NOTHING = ...  # a pointer, a length that is hidden, or an object that is no plain value
SAW = "_saw_"  # the name by which watched statements call a Recorder
_KINDS = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    np.generic,
    np.dtype,
    torch.dtype,
    pl.DataType,
    ExtensionDtype,
)
_LABELS = (pd.Index, pd.Series)


@dataclass(frozen=True)
class Told:
    """One value that was told, and where: the number of an expression in a statement, and which time."""

    expression: int
    time: int
    text: str
    value: Any


@dataclass
class Done:
    """What one statement told on pointers, and the names that were placed at the owner after it."""

    told: list[Told] = field(default_factory=list)
    placed: list[str] = field(default_factory=list)


_TELLING = (ast.Call, ast.Compare, ast.BoolOp, ast.UnaryOp, ast.BinOp, ast.IfExp, ast.ListComp, ast.JoinedStr)


class _Watcher(ast.NodeTransformer):
    """Wraps each expression that may tell something into a call of a Recorder, with its number."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.names: list[frozenset[str]] = []

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, (ast.Lambda, ast.FunctionDef, ast.ClassDef)):
            return node  # run by others, and later
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node.func.value = self.visit(node.func.value)  # a method is looked up where it is called
            node.args = [self.visit(one) for one in node.args]
            node.keywords = [self.visit(one) for one in node.keywords]
            return self._watched(node)
        if isinstance(node, ast.Try):
            return self._tried(node)
        if isinstance(node, _TELLING):
            return self._watched(self.generic_visit(node))
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Load):
            return self._watched(self.generic_visit(node))
        return self.generic_visit(node)

    def _tried(self, node: ast.Try) -> ast.Try:
        """Which exception is raised is told too."""
        tried = ast.Module(node.body, [])
        number = self._numbered(f"error of {ast.unparse(tried)}", tried)
        self.generic_visit(node)
        for handler in node.handlers:
            name = (
                "Exception"
                if handler.type is None
                else ast.unparse(_Bare().visit(copy.deepcopy(handler.type)))
            )
            handler.body.insert(0, ast.Expr(self._call(number, ast.Constant(name), handler)))
        node.orelse.insert(0, ast.Expr(self._call(number, ast.Constant("none"), node)))
        return ast.fix_missing_locations(node)

    def _watched(self, node: Any) -> ast.AST:
        number = self._numbered(ast.unparse(_bare(node)), node)
        return self._call(number, node, node)

    def _numbered(self, text: str, node: ast.AST) -> int:
        self.texts.append(text)
        names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        self.names.append(frozenset(names - {SAW}))
        return len(self.texts) - 1

    def _call(self, number: int, node: Any, place: Any) -> ast.Call:
        call = ast.Call(ast.Name(SAW, ast.Load()), [ast.Constant(number), node], [])
        return ast.fix_missing_locations(ast.copy_location(call, place))


class _Bare(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> Any:
        node = self.generic_visit(node)  # type: ignore[assignment]
        is_watched = isinstance(node.func, ast.Name) and node.func.id == SAW
        return node.args[1] if is_watched else node


def _bare(node: ast.AST) -> ast.AST:
    """The same without calls of a Recorder."""
    bare: ast.AST = _Bare().visit(copy.deepcopy(node))
    return bare


class Watched:
    """A statement whose expressions tell a Recorder what they are."""

    def __init__(self, node: ast.stmt) -> None:
        watcher = _Watcher()
        self.node: ast.stmt = watcher.visit(copy.deepcopy(node))
        self.texts = watcher.texts
        self.names = watcher.names


class Recorder:
    """Stands in a namespace as SAW, and notes what the expressions of one statement are while it is on."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, Any]] | None = None

    def __call__(self, number: int, value: Any) -> Any:
        if self.seen is not None:
            self.seen.append((number, plain(value)))
        return value

    def during(self, act: Callable[[], Any]) -> tuple[Any, dict[tuple[int, int], Any]]:
        """What `act` returns, and the values by expression and time."""
        self.seen = []
        try:
            made = act()
        finally:
            seen, self.seen = self.seen, None
        found: dict[tuple[int, int], Any] = {}
        times: dict[int, int] = {}
        for number, value in seen:
            times[number] = times.get(number, -1) + 1
            found[number, times[number]] = value
        return made, found


def told_of(watched: Watched, names: dict[str, Any], act: Callable[[], Any]) -> tuple[Any, list[Told]]:
    """What `act`, which runs a watched statement in `names`, returns, and what it told of pointers."""
    held = {name for name, obj in names.items() if holds_pointer(obj)}
    made, seen = names[SAW].during(act)
    told = [
        Told(number, time, watched.texts[number], value)
        for (number, time), value in seen.items()
        if watched.names[number] & held
        and value is not NOTHING
        and not watched.texts[number].startswith("print(")
    ]
    return made, told


def holds_pointer(obj: Any) -> bool:
    if is_remote(obj):
        return True
    if type(obj) in (list, tuple):
        return any(map(holds_pointer, obj))
    return type(obj) is dict and any(map(holds_pointer, obj.values()))


def plain(obj: Any) -> Any:
    """A copy of a plain value, with NOTHING in the place of what is none."""
    if is_remote(obj):
        return NOTHING
    if isinstance(obj, Shape):
        return tuple(NOTHING if one == "?" else int(one) for one in repr(obj)[1:-1].split(", "))
    if isinstance(obj, (tuple, list)):  # torch.Size and named ones too
        return tuple(map(plain, obj))
    if type(obj) is dict:
        return {key: plain(item) for key, item in obj.items()}
    if isinstance(obj, _LABELS):
        return obj.copy()
    return (
        obj
        if isinstance(obj, _KINDS) or (isinstance(obj, type) and issubclass(obj, pl.DataType))
        else NOTHING
    )


def differs(told: Any, met: Any) -> bool:
    """Whether a told value is not what was met in another world."""
    return any(_differences(told, met))


def _differences(told: Any, met: Any) -> Iterator[bool]:
    if told is NOTHING:
        return
    if isinstance(told, tuple):
        yield not isinstance(met, tuple) or len(met) != len(told)
        if isinstance(met, tuple):
            for one, other in zip(told, met, strict=False):
                yield from _differences(one, other)
    elif isinstance(told, dict):
        yield not isinstance(met, dict) or list(told) != list(met)
        if isinstance(met, dict):
            for key in told.keys() & met.keys():
                yield from _differences(told[key], met[key])
    elif isinstance(told, _LABELS):
        yield not (type(told) is type(met) and told.equals(met))
    elif isinstance(told, float) and np.isnan(told):
        yield not (isinstance(met, float) and np.isnan(met))
    elif plain(met) is NOTHING or isinstance(met, tuple | dict | pd.Index | pd.Series):
        yield True
    else:
        yield isinstance(told, bool | np.bool_) != isinstance(met, bool | np.bool_) or not bool(told == met)
