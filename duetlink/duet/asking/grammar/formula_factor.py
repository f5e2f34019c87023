"""Evaluates one factor of a formula, such as `np.log(x)` or `C(town, levels=['Ulm'])`, with pointers.

The text is Python. Names, numbers, texts, operators, and calls of functions in the allow-lists are supported.
Python's parser makes the syntax tree; nothing is compiled.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

from duetlink.compute.mocks.draw import UNKNOWN_CATEGORIES
from duetlink.duet.asking.grammar.formula_coding import KINDS, Contrast
from duetlink.duet.asking.grammar.formula_text import BEFORE, tree
from duetlink.duet.asking.grammar.syntax_tree import TreeReader, bounded
from duetlink.duet.asking.recording.program import Program, is_remote
from duetlink.errors import OperationRefused

MAX_LEVELS = 1_000
_INVENTED = tuple(f"category {number}" for number in range(UNKNOWN_CATEGORIES))
_BUILTINS: Mapping[str, Callable[..., Any]] = {"abs": abs, "pow": pow, "round": round}
_NAMED = re.compile(r"(?:C\()?([^\W\d]\w*)\b.*")


class Levels(NamedTuple):
    """A categorical factor: its column, its levels (None if they are not given), and its contrast."""

    column: Any
    levels: tuple[Any, ...] | None
    contrast: Contrast


class Memory:
    """The means and deviations that `center` and `standardize` used in the fit; other data use the same."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, int, int], tuple[Any, ...]] = {}
        self.filled = False


class Factors(TreeReader):
    """Evaluates factors with the columns of a frame and the variables of the caller."""

    operators: ClassVar[Mapping[type[ast.AST], str]] = {
        **TreeReader.operators,
        ast.BitAnd: "and_",
        ast.BitOr: "or_",
        ast.BitXor: "xor",
    }

    def __init__(self, program: Program, frame: Any, variables: Mapping[str, Any], memory: Memory) -> None:
        super().__init__(program, variables, "a formula", BEFORE)
        self._frame = frame
        self._memory = memory
        self._code = ""

    def column(self, code: str) -> Any:
        """Evaluate a factor to a pointer to a column of numbers, or to Levels.

        Raises:
            OperationRefused: a part of it is not supported, or its levels are not known.
            Exception: whatever the library raises for the mock.
        """
        self._code = code
        self._where = f"a formula ({code})"
        value = self.value(tree(code))
        found = value if isinstance(value, Levels) else Levels(value, None, Contrast())
        column = self._as_series(found.column)
        dtype = column.dtype
        if not isinstance(value, Levels) and dtype.kind in "iuf" and str(dtype) != "category":
            if not hasattr(dtype, "itemsize") or type(dtype).__module__.partition(".")[0] != "numpy":
                raise OperationRefused(
                    f"{code} is of {dtype}: whether it counts as numbers depends on what is missing in it; "
                    "make it frame.x.astype(float) before"
                )
            return column
        levels = found.levels
        if levels is None:
            levels = self._known_levels(column, dtype)
        if not 0 < len(levels) <= MAX_LEVELS or len(set(levels)) < len(levels):
            raise OperationRefused(f"{code}: there are 1 to {MAX_LEVELS} levels, each once")
        return Levels(column, levels, found.contrast)

    def _known_levels(self, column: Any, dtype: Any) -> tuple[Any, ...]:
        if dtype.kind == "b":
            return (False, True)
        if str(dtype) == "category":
            levels = tuple(column.mock.cat.categories.tolist())
            if levels != _INVENTED:
                return levels
        named = _NAMED.fullmatch(self._code)
        name = named[1] if named is not None else "column"
        raise OperationRefused(
            f"{self._code}: which levels there are is data, and not known here. Give them: "
            f"C({name}, levels=['a', 'b']). Or their owner shares a column of categories with "
            f"mock=Mock(categories={{{name!r}: ['a', 'b']}})"
        )

    def _as_series(self, value: Any) -> Any:
        if is_remote(value):
            mock, rows = value.mock, len(self._frame.mock)
            if getattr(mock, "ndim", 0) == 1 and len(mock) == rows and hasattr(mock, "dtype"):
                if type(mock).__name__ == "Series":
                    return value
                import pandas as pd

                return self._program.call("pandas.Series", pd.Series, (value,), {"index": self._frame.index})
        raise OperationRefused(f"{self._code} is no column with an item for each row; {BEFORE}")

    # -- values ----------------------------------------------------------------------------------------------

    def read_name(self, node: ast.Name) -> Any:
        name = node.id
        if name in self._frame:
            return self._frame[name]
        if name in KINDS:
            return Contrast(name)
        if name in self._variables:
            return self._variable(name)
        raise OperationRefused(
            f"{name!r} in {self._code} is no column, and no variable where this was called; {BEFORE}"
        )

    def read_compare(self, node: ast.Compare) -> Any:
        if len(node.ops) > 1:
            raise OperationRefused(f"{self._code}: compare once, and join by &: (0 < x) & (x < 1)")
        return self._operation(type(node.ops[0]), self.value(node.left), self.value(node.comparators[0]))

    def read_subscript(self, node: ast.Subscript) -> Any:
        target = self.value(node.value)
        if not is_remote(target) or isinstance(node.slice, (ast.Slice, ast.Tuple)):
            raise self._unknown("[…]")
        return target[self.value(node.slice)]

    # -- calls -----------------------------------------------------------------------------------------------

    def read_call(self, node: ast.Call) -> Any:
        arguments, keywords = self._arguments(node)
        if isinstance(node.func, ast.Name) and node.func.id not in self._frame:
            name = node.func.id
            if name in _OWN:
                try:
                    return _OWN[name](self, node, *arguments, **keywords)
                except TypeError as error:
                    raise OperationRefused(f"{self._code}: {error}") from None
            if name in KINDS:
                option = next(iter([*arguments, *keywords.values()]), None)
                return Contrast(name, option)
            if name in _BUILTINS and name not in self._variables:
                return self._called(_BUILTINS[name], arguments, keywords)
            return self._called(self.read_name(node.func), arguments, keywords)
        if isinstance(node.func, ast.Attribute):
            return self._called(self._attribute(node.func), arguments, keywords)
        raise OperationRefused(f"{self._code}: only functions are called; {BEFORE}")

    def _called(self, function: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        if callable(function) and not is_remote(function):
            if getattr(function, "_remote", None) is not None:  # a method of a column
                return function(*arguments, **keywords)
            name = self._program.allowed.name_of(function)
            if name is not None:
                return self._program.call(name, function, arguments, keywords)
        raise OperationRefused(f"{self._code}: this function is in no list of what may be called; {BEFORE}")

    def read_attribute(self, node: ast.Attribute) -> Any:
        found = self._attribute(node)
        return bounded(found) if type(found) in (int, float) else found

    def _attribute(self, node: ast.Attribute) -> Any:
        target = (
            self._attribute(node.value) if isinstance(node.value, ast.Attribute) else self.value(node.value)
        )
        if not node.attr.startswith("_"):
            if isinstance(target, ModuleType) and hasattr(target, node.attr):
                return getattr(target, node.attr)
            if is_remote(target):
                return type(target).__getattr__(target, node.attr)
        raise OperationRefused(f".{node.attr} in {self._code} is taken of columns and modules only; {BEFORE}")

    def _levels(self, node: ast.Call, data: Any, contrast: Any = None, levels: Any = None) -> Levels:
        inner = data if isinstance(data, Levels) else Levels(data, None, Contrast())
        if contrast is not None and not isinstance(contrast, Contrast):
            raise OperationRefused(f"{self._code}: contrasts are {', '.join(KINDS)}")
        if levels is not None and (is_remote(levels) or not hasattr(levels, "__iter__")):
            raise OperationRefused(f"{self._code}: levels= is a list of plain values")
        given = inner.levels if levels is None else tuple(levels)
        return Levels(inner.column, given, contrast or inner.contrast)

    def _quoted(self, node: ast.Call, name: str) -> Any:
        if name in self._frame:
            return self._frame[name]
        raise OperationRefused(f"{self._code}: there is no column {str(name)[:100]!r}")

    def _itself(self, node: ast.Call, value: Any) -> Any:
        return value

    def _center(self, node: ast.Call, x: Any) -> Any:
        return self._standardize(node, x, rescale=False)

    def _standardize(
        self, node: ast.Call, x: Any, center: bool = True, rescale: bool = True, ddof: int = 0
    ) -> Any:
        key = self._code, node.lineno, node.col_offset
        column = self._as_series(x)
        if not self._memory.filled:
            # missing values count, since patsy computes these before it drops rows
            mean = column.mean(skipna=False) if center else 0.0
            spread = column.std(ddof=ddof, skipna=False) if rescale else 1.0
            self._memory.kept[key] = mean, spread
        mean, spread = self._memory.kept[key]
        made = column - mean if center else column
        return made / spread if rescale else made


_OWN: Mapping[str, Callable[..., Any]] = {
    "C": Factors._levels,
    "I": Factors._itself,
    "Q": Factors._quoted,
    "center": Factors._center,
    "scale": Factors._standardize,
    "standardize": Factors._standardize,
}
