"""`query` and `eval` of a pointer to a frame: the text is evaluated here into operations of the allow-lists.

The operations that pandas would run for a text are recorded as steps. So the owner gets these steps and no
text. Details of pandas that show in the result are followed: a comparison with a text or a list is `isin`.
Example: `frame.query("age > 60 and town == 'Ulm'")` records `frame["age"]`, `> 60`, `frame["town"]`,
`.isin(["Ulm"])`, `&`, and `frame[…]`.
"""

from __future__ import annotations

import ast
import sys
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, ClassVar

from duetlink.duet.asking.grammar.frame_text import FrameText
from duetlink.duet.asking.grammar.syntax_tree import TreeReader
from duetlink.duet.asking.recording.program import is_remote
from duetlink.errors import OperationRefused

# The functions that pandas has in texts
_FUNCTIONS = frozenset(
    (
        *("sin", "cos", "tan", "exp", "log", "expm1", "log1p", "sqrt", "sinh", "cosh", "tanh", "arcsin"),
        *("arccos", "arctan", "arccosh", "arcsinh", "arctanh", "abs", "log10", "floor", "ceil", "arctan2"),
    )
)
_REMEDY = "write it by operators, or work it out before and give it by @name"


def query(frame: Any, text: str, variables: Mapping[str, Any]) -> Any:
    """Return the rows of a frame for which a text is true, like `DataFrame.query`.

    Raises:
        OperationRefused: the text is not supported; the message says what to write instead.
        Exception: what pandas raises for the mock.
    """
    read = FrameText(text)
    if len(read.statements) > 1 or read.statements[0].target:
        raise OperationRefused("query takes one condition; equality is ==")
    chosen = _Evaluation(frame, read, variables).value(read.statements[0].value)
    if not is_remote(chosen):
        raise OperationRefused(f"query takes a condition on columns, which {text[:200]!r} is not")
    if str(getattr(chosen, "dtype", "")) in ("bool", "boolean"):
        return frame[chosen]
    return frame.loc[chosen]


def evaluate(frame: Any, text: str, variables: Mapping[str, Any]) -> Any:
    """Evaluate a text like `DataFrame.eval`: return a value, or a new frame if the text sets columns.

    Raises like `query`.
    """
    read = FrameText(text)
    evaluation = _Evaluation(frame, read, variables)
    if len(read.statements) == 1 and not read.statements[0].target:
        made = evaluation.value(read.statements[0].value)
        if isinstance(made, list):
            raise OperationRefused("eval makes one column or value here, not a list of them")
        return made
    for target, value in read.statements:
        if not target:
            raise OperationRefused("of several lines each sets a column: c = a + b")
        evaluation.set(target, evaluation.value(value))
    return evaluation.frame


_METHODS: Mapping[str, Callable[[Any, str, Mapping[str, Any]], Any]] = {"query": query, "eval": evaluate}
# options that select an implementation in pandas; these values change nothing here
_HARMLESS: Mapping[str, tuple[Any, ...]] = {
    "engine": (None, "python", "numexpr"),
    "inplace": (False,),
    "parser": ("pandas",),
}


class FrameMethod:
    """The method `query` or `eval` of a pointer to a frame."""

    def __init__(self, frame: Any, name: str) -> None:
        self._frame = frame
        self._name = name

    def __call__(self, expr: str, **options: Any) -> Any:
        """Evaluate a text. `@name` in it is a variable of the caller.

        Raises:
            OperationRefused: the text or an option is not supported; the message says what to write instead.
        """
        given = options.pop("local_dict", None)
        for name, value in options.items():
            if value not in _HARMLESS.get(name, ()):
                raise OperationRefused(f"{name}={value!r} is not known here; take what {self._name} returns")
        if given is None:
            caller = sys._getframe(1)
            given = ChainMap(dict(caller.f_locals), caller.f_globals)
        return _METHODS[self._name](self._frame, expr, given)

    def __repr__(self) -> str:
        return f"<method {self._name} of {self._frame!r}>"


def methods_of(mock: Any) -> tuple[str, ...]:
    """Return the methods of this module that a pointer with this mock has; only pandas frames have any."""
    is_frame = type(mock).__module__.partition(".")[0] == "pandas" and hasattr(mock, "columns")
    return tuple(_METHODS) if is_frame else ()


class _Evaluation(TreeReader):
    operators: ClassVar[Mapping[type[ast.AST], str]] = {
        **TreeReader.operators,
        ast.And: "and_",
        ast.Or: "or_",
    }
    signs: ClassVar[Mapping[type[ast.unaryop], str]] = {**TreeReader.signs, ast.Not: "invert"}

    def __init__(self, frame: Any, text: FrameText, variables: Mapping[str, Any]) -> None:
        super().__init__(frame._program, variables, "a text of pandas", _REMEDY)
        self.frame = frame
        self._text = text
        self._known: dict[str, Any] = {}  # columns by their names, as they are used

    def set(self, name: str, value: Any) -> None:
        """Set a column; `frame` is a new frame afterwards."""
        self.frame = self.frame.assign(**{name: value})
        self._known[name] = value

    # -- names and values ------------------------------------------------------------------------------------

    def read_name(self, node: ast.Name) -> Any:
        local = self._text.local(node.id)
        if local:
            if local not in self._variables:
                raise OperationRefused(f"@{local}: there is no variable {local!r} where this was called")
            return self._variable(local)
        name = self._text.column(node.id)
        if name not in self._known:
            self._known[name] = self._column(name)
        return self._known[name]

    def _column(self, name: str) -> Any:
        if name in self.frame:
            return self.frame[name]
        labels = list(self.frame.mock.index.names)
        if name in labels or name in [f"ilevel_{at}" for at, label in enumerate(labels) if label is None]:
            level = name if name in labels else int(name.removeprefix("ilevel_"))
            index = self.frame.index
            return index.get_level_values(level).to_series(index=index)
        if name == "index":
            return self.frame.index.to_series() if len(labels) == 1 else self.frame.index
        raise OperationRefused(
            f"{name!r} is no column here; a variable of yours is @{name}, and a name that is no word stands "
            "in backticks"
        )

    def read_attribute(self, node: ast.Attribute) -> Any:
        found = self._member(self.value(node.value), node.attr)
        if callable(found) and not is_remote(found):
            raise OperationRefused(f"{node.attr} is a method, which is called: .{node.attr}()")
        return found

    def _member(self, target: Any, name: str) -> Any:
        if not is_remote(target) or name.startswith("_"):
            raise OperationRefused(f".{name} is taken of columns only; {_REMEDY}")
        return type(target).__getattr__(target, name)  # never the pointer's own methods, such as get()

    def read_call(self, node: ast.Call) -> Any:
        arguments, keywords = self._arguments(node)
        if isinstance(node.func, ast.Attribute):
            method = self._member(self.value(node.func.value), node.func.attr)
            if not is_remote(method) and callable(method):
                return method(*arguments, **keywords)
        elif isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS and not keywords:
            import numpy

            name = self._program.allowed.name_of(getattr(numpy, node.func.id))  # abs is called absolute
            return self._done(name or f"numpy.{node.func.id}", *arguments)
        raise OperationRefused(
            f"only methods of columns and {', '.join(sorted(_FUNCTIONS))} are called in a text; {_REMEDY}"
        )

    def read_subscript(self, node: ast.Subscript) -> Any:
        key = node.slice
        if isinstance(key, ast.Slice):
            bounds = [None if part is None else self.value(part) for part in (key.lower, key.upper, key.step)]
            return self._done("operator.getitem", self.value(node.value), slice(*bounds))
        if isinstance(key, ast.Tuple):
            raise self._unknown("an index of several parts")
        return self._done("operator.getitem", self.value(node.value), self.value(key))

    # -- operators -------------------------------------------------------------------------------------------

    def read_boolop(self, node: ast.BoolOp) -> Any:
        return self._join(type(node.op), [self.value(part) for part in node.values])

    def _join(self, kind: type[ast.boolop], values: Sequence[Any]) -> Any:
        return reduce(lambda left, right: self._joined_two(kind, left, right), values)

    def _joined_two(self, kind: type[ast.boolop], left: Any, right: Any) -> Any:
        if (_is_single(left) or _is_single(right)) and not (_is_truth(left) and _is_truth(right)):
            raise OperationRefused(f"and, or, & and | join truth values here, as in pandas; {_REMEDY}")
        return self._operation(kind, left, right)

    def read_compare(self, node: ast.Compare) -> Any:
        lefts, found = [node.left, *node.comparators], []
        for left, how, right in zip(lefts, node.ops, node.comparators, strict=False):
            found.append(self._compared_two(left, how, right))
        return self._join(ast.And, found)

    def _compared_two(self, left: ast.expr, how: ast.cmpop, right: ast.expr) -> Any:
        if isinstance(how, (ast.In, ast.NotIn)):
            within = isinstance(how, ast.In)
            named = isinstance(right, (ast.List, ast.Tuple)) and any(
                isinstance(part, ast.Name) for part in right.elts
            )
            if not named or not isinstance(right, (ast.List, ast.Tuple)):
                return self._is_in(self.value(left), self.value(right), within)
            # a list with names in it is one comparison for each item, as in pandas
            each = [
                self._compared_two(left, ast.Eq() if within else ast.NotEq(), part) for part in right.elts
            ]
            return self._join(ast.Or if within else ast.And, each)
        one, other = self.value(left), self.value(right)
        terms = isinstance(how, (ast.Eq, ast.NotEq)) and _is_term(left) and _is_term(right)
        if terms and any(isinstance(side, (str, list)) for side in (one, other)):
            if is_remote(other) and not is_remote(one):
                one, other = other, one
            return self._is_in(one, [other] if isinstance(other, str) else other, isinstance(how, ast.Eq))
        return self._operation(type(how), one, other)

    def _is_in(self, left: Any, right: Any, within: bool) -> Any:
        if isinstance(left, (list, str)) and is_remote(right):  # pandas swaps the sides
            left, right = right, [left] if isinstance(left, str) else left
        if not is_remote(left):
            raise OperationRefused(f"in is asked of a column: column in [1, 2]; {_REMEDY}")
        items = (
            [right]
            if isinstance(right, str)
            else list(right)
            if isinstance(right, (set, frozenset))
            else right
        )
        found = self._member(left, "isin")(items)
        return found if within else self._done("operator.invert", found)


def _is_term(node: ast.expr) -> bool:
    """Return True for a name, constant or method call: if both sides are such, pandas compares by `isin`."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute)
    return not isinstance(node, (ast.BinOp, ast.BoolOp, ast.Compare, ast.UnaryOp))


def _is_single(value: Any) -> bool:
    return not getattr(value, "ndim", 0)


def _is_truth(value: Any) -> bool:
    if isinstance(value, bool):
        return True
    return is_remote(value) and str(getattr(value, "dtype", "")) in ("bool", "boolean")
