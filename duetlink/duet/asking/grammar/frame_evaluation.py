"""`query` and `eval` of a pointer to a frame: what a text says is done by operations of the lists.

What pandas does with a text is done here with pointers, step by step, so that the owner sees these steps, and
no text. Where pandas' own way can be seen in the result it is followed: a comparison with a text or a list is
`isin`, as there.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

from duetlink.duet.asking.grammar.frame_text import FrameText
from duetlink.duet.asking.grammar.plain_numbers import bounded, of_numbers
from duetlink.duet.asking.grammar.rows import has_rows, placed
from duetlink.duet.asking.program import PLAIN, is_remote
from duetlink.errors import OperationRefused

_BINARY: Mapping[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "truediv",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
}
_COMPARED: Mapping[type[ast.cmpop], str] = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
}
# The functions that pandas has in texts
_FUNCTIONS = frozenset(
    (
        *("sin", "cos", "tan", "exp", "log", "expm1", "log1p", "sqrt", "sinh", "cosh", "tanh", "arcsin"),
        *("arccos", "arctan", "arccosh", "arcsinh", "arctanh", "abs", "log10", "floor", "ceil", "arctan2"),
    )
)
_REMEDY = "write it by operators, or work it out before and give it by @name"


def query(frame: Any, text: str, variables: Mapping[str, Any]) -> Any:
    """The rows of a frame for which a text is true, as `DataFrame.query`.

    Raises:
        OperationRefused: the text is not known here; the message says what to write instead.
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
    """What a text makes of the columns of a frame, as `DataFrame.eval`: a new frame where it sets columns.

    Raises: as `query`.
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


class _Evaluation:
    def __init__(self, frame: Any, text: FrameText, variables: Mapping[str, Any]) -> None:
        self.frame = frame
        self._program = frame._program
        self._text = text
        self._variables = variables
        self._known: dict[str, Any] = {}  # columns by their names, as they are used

    def set(self, name: str, value: Any) -> None:
        """A new frame, with a column."""
        self.frame = self.frame.assign(**{name: value})
        self._known[name] = value

    def value(self, node: ast.AST) -> Any:
        """A pointer or a plain value."""
        visit = _VISITS.get(type(node))
        if visit is None:
            raise OperationRefused(f"{type(node).__name__} is not known in a text of pandas; {_REMEDY}")
        return visit(self, node)

    # -- names and values ------------------------------------------------------------------------------------

    def name(self, node: ast.Name) -> Any:
        local = self._text.local(node.id)
        if local:
            if local not in self._variables:
                raise OperationRefused(f"@{local}: there is no variable {local!r} where this was called")
            value = self._variables[local]
            return value if is_remote(value) or not has_rows(value) else placed(self._program, value)
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

    def constant(self, node: ast.Constant) -> Any:
        if type(node.value) not in PLAIN and type(node.value) is not complex:
            raise OperationRefused(
                f"a {type(node.value).__name__} is not known in a text of pandas; {_REMEDY}"
            )
        return bounded(node.value)

    def items(self, node: ast.List | ast.Tuple) -> list[Any]:
        return [self.value(part) for part in node.elts]

    def attribute(self, node: ast.Attribute) -> Any:
        found = self._member(self.value(node.value), node.attr)
        if callable(found) and not is_remote(found):
            raise OperationRefused(f"{node.attr} is a method, which is called: .{node.attr}()")
        return found

    def _member(self, target: Any, name: str) -> Any:
        if not is_remote(target) or name.startswith("_"):
            raise OperationRefused(f".{name} is taken of columns only; {_REMEDY}")
        return type(target).__getattr__(target, name)  # never what a pointer itself has, such as get()

    def call(self, node: ast.Call) -> Any:
        arguments = [self.value(part) for part in node.args]
        keywords = {part.arg: self.value(part.value) for part in node.keywords if part.arg is not None}
        if len(keywords) < len(node.keywords):
            raise OperationRefused(f"** is not known in a text of pandas; {_REMEDY}")
        if isinstance(node.func, ast.Attribute):
            method = self._member(self.value(node.func.value), node.func.attr)
            if not is_remote(method) and callable(method):
                return method(*arguments, **keywords)
        elif isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS and not keywords:
            import numpy

            return self._done(self._program.allowed.name_of(getattr(numpy, node.func.id)), arguments)
        raise OperationRefused(
            f"only methods of columns and {', '.join(sorted(_FUNCTIONS))} are called in a text; {_REMEDY}"
        )

    def subscript(self, node: ast.Subscript) -> Any:
        key = node.slice
        if isinstance(key, ast.Slice):
            bounds = [None if part is None else self.value(part) for part in (key.lower, key.upper, key.step)]
            return self._done("operator.getitem", [self.value(node.value), slice(*bounds)])
        if isinstance(key, ast.Tuple):
            raise OperationRefused(f"an index of several parts is not known in a text of pandas; {_REMEDY}")
        return self._done("operator.getitem", [self.value(node.value), self.value(key)])

    # -- operators -------------------------------------------------------------------------------------------

    def binary(self, node: ast.BinOp) -> Any:
        name = _BINARY.get(type(node.op))
        if name is None:
            raise OperationRefused(f"{type(node.op).__name__} is not known in a text of pandas; {_REMEDY}")
        return self._operation(name, self.value(node.left), self.value(node.right))

    def unary(self, node: ast.UnaryOp) -> Any:
        operand = self.value(node.operand)
        name = {ast.USub: "neg", ast.UAdd: "pos"}.get(type(node.op), "invert")  # `not` is `~`
        if is_remote(operand):
            return self._done(f"operator.{name}", [operand])
        if name == "invert" or type(operand) not in (int, float, bool, complex):
            raise OperationRefused(f"{name} is done with columns and numbers; {_REMEDY}")
        return -operand if name == "neg" else +operand

    def joined(self, node: ast.BoolOp) -> Any:
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        return self._join(name, [self.value(part) for part in node.values])

    def _join(self, name: str, values: Sequence[Any]) -> Any:
        return reduce(lambda left, right: self._joined_two(name, left, right), values)

    def _joined_two(self, name: str, left: Any, right: Any) -> Any:
        if (_is_single(left) or _is_single(right)) and not (_is_truth(left) and _is_truth(right)):
            raise OperationRefused(f"and, or, & and | join truth values here, as in pandas; {_REMEDY}")
        return self._operation(name, left, right)

    def compared(self, node: ast.Compare) -> Any:
        lefts, found = [node.left, *node.comparators], []
        for left, how, right in zip(lefts, node.ops, node.comparators, strict=False):
            found.append(self._compared_two(left, how, right))
        return self._join("and_", found)

    def _compared_two(self, left: ast.expr, how: ast.cmpop, right: ast.expr) -> Any:
        if isinstance(how, (ast.In, ast.NotIn)):
            within = isinstance(how, ast.In)
            named = isinstance(right, (ast.List, ast.Tuple)) and any(
                isinstance(part, ast.Name) for part in right.elts
            )
            if not named or not isinstance(right, (ast.List, ast.Tuple)):
                return self._is_in(self.value(left), self.value(right), within)
            # with names in it, it is one comparison for each, as in pandas
            each = [
                self._compared_two(left, ast.Eq() if within else ast.NotEq(), part) for part in right.elts
            ]
            return self._join("or_" if within else "and_", each)
        name = _COMPARED.get(type(how))
        if name is None:
            raise OperationRefused(f"{type(how).__name__} is not known in a text of pandas; {_REMEDY}")
        one, other = self.value(left), self.value(right)
        terms = name in ("eq", "ne") and _is_term(left) and _is_term(right)
        if terms and any(isinstance(side, (str, list)) for side in (one, other)):
            if is_remote(other) and not is_remote(one):
                one, other = other, one
            return self._is_in(one, [other] if isinstance(other, str) else other, name == "eq")
        return self._operation(name, one, other)

    def _is_in(self, left: Any, right: Any, within: bool) -> Any:
        if isinstance(left, (list, str)) and is_remote(right):  # pandas turns it round
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
        return found if within else self._done("operator.invert", [found])

    def _operation(self, name: str, left: Any, right: Any) -> Any:
        if is_remote(left) or is_remote(right):
            return self._done(f"operator.{name}", [left, right])
        return of_numbers(name, left, right)

    def _done(self, operation: str, arguments: list[Any]) -> Any:
        if not any(map(is_remote, arguments)):
            raise OperationRefused(f"{operation} is done with columns; {_REMEDY}")
        function = self._program.allowed.function(operation).call
        return self._program.call(operation, function, arguments, {})


_VISITS: Mapping[type[ast.AST], Callable[[_Evaluation, Any], Any]] = {
    ast.Attribute: _Evaluation.attribute,
    ast.BinOp: _Evaluation.binary,
    ast.BoolOp: _Evaluation.joined,
    ast.Call: _Evaluation.call,
    ast.Compare: _Evaluation.compared,
    ast.Constant: _Evaluation.constant,
    ast.List: _Evaluation.items,
    ast.Name: _Evaluation.name,
    ast.Subscript: _Evaluation.subscript,
    ast.Tuple: _Evaluation.items,
    ast.UnaryOp: _Evaluation.unary,
}


def _is_term(node: ast.expr) -> bool:
    """Whether pandas has this at hand, and does not work it out; of these it compares texts by `isin`."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute)
    return not isinstance(node, (ast.BinOp, ast.BoolOp, ast.Compare, ast.UnaryOp))


def _is_single(value: Any) -> bool:
    return not getattr(value, "ndim", 0)


def _is_truth(value: Any) -> bool:
    """Whether it is a truth value, or a column of them."""
    if isinstance(value, bool):
        return True
    return is_remote(value) and str(getattr(value, "dtype", "")) in ("bool", "boolean")
