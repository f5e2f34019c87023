"""Evaluates Python syntax trees with pointers and plain numbers. Nothing is compiled or executed by Python.

Numbers are bounded, since ten characters such as `9**9**9**9` can name a number of gigabytes.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Mapping
from typing import Any, ClassVar

from duetlink.compute.operations.sizes.mask import PUBLIC
from duetlink.duet.asking.recording.program import PLAIN, Program, is_remote
from duetlink.errors import OperationRefused

_MOST = 1 << 64  # larger numbers fit in no column
_MOST_POWER = 64
_NUMBERS = (int, float, bool, complex)


def read(code: str, *, most_nodes: int, most_depth: int, remedy: str) -> list[ast.stmt]:
    """Parse a text into Python statements. Raises OperationRefused if it is invalid or too large."""
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        what = error.msg if isinstance(error, SyntaxError) else type(error).__name__
        raise OperationRefused(f"{code[:200]!r} cannot be read ({what}); {remedy}") from None
    level: list[ast.AST] = list(body)
    depth = nodes = 0
    while level:
        depth += 1
        nodes += len(level)
        if depth > most_depth or nodes > most_nodes:
            raise OperationRefused(
                f"a text of over {most_nodes:,} parts, or {most_depth} within each other, is too large; "
                f"{remedy}"
            )
        level = [part for node in level for part in ast.iter_child_nodes(node)]
    return body


class TreeReader:
    """Evaluates expressions. A node of class `ast.BinOp` is evaluated by `read_binop`; a node without such a
    method is refused.
    """

    operators: ClassVar[Mapping[type[ast.AST], str]] = {
        ast.Add: "add",
        ast.Sub: "sub",
        ast.Mult: "mul",
        ast.Div: "truediv",
        ast.FloorDiv: "floordiv",
        ast.Mod: "mod",
        ast.Pow: "pow",
        ast.Eq: "eq",
        ast.NotEq: "ne",
        ast.Lt: "lt",
        ast.LtE: "le",
        ast.Gt: "gt",
        ast.GtE: "ge",
    }
    signs: ClassVar[Mapping[type[ast.unaryop], str]] = {
        ast.USub: "neg",
        ast.UAdd: "pos",
        ast.Invert: "invert",
    }

    def __init__(self, program: Program, variables: Mapping[str, Any], where: str, remedy: str) -> None:
        """`variables` are the caller's. Errors name the text by `where` and advise by `remedy`."""
        self._program = program
        self._variables = variables
        self._where = where
        self._remedy = remedy

    def value(self, node: ast.AST) -> Any:
        """Evaluate a node to a pointer or a plain value.

        Raises OperationRefused, and whatever the library raises for the mock.
        """
        visit = getattr(self, f"read_{type(node).__name__.lower()}", None)
        if visit is None:
            raise self._unknown(type(node).__name__)
        return visit(node)

    def _unknown(self, what: str) -> OperationRefused:
        return OperationRefused(f"{what} is not known in {self._where}; {self._remedy}")

    def _variable(self, name: str) -> Any:
        value = self._variables[name]
        return value if is_remote(value) or not has_rows(value) else placed(self._program, value)

    def _arguments(self, node: ast.Call) -> tuple[list[Any], dict[str, Any]]:
        arguments = [self.value(part) for part in node.args]
        keywords = {part.arg: self.value(part.value) for part in node.keywords if part.arg is not None}
        if len(keywords) < len(node.keywords):
            raise self._unknown("**")
        return arguments, keywords

    def _operation(self, kind: type[ast.AST], left: Any, right: Any) -> Any:
        name = self.operators.get(kind)
        if name is None:
            raise self._unknown(kind.__name__)
        if is_remote(left) or is_remote(right):
            return self._done(f"operator.{name}", left, right)
        return _of_numbers(name, left, right)

    def _done(self, operation: str, *arguments: Any) -> Any:
        if not any(map(is_remote, arguments)):
            raise OperationRefused(f"{operation} is done with columns; {self._remedy}")
        function = self._program.allowed.function(operation).call
        return self._program.call(operation, function, arguments, {})

    def read_constant(self, node: ast.Constant) -> Any:
        if type(node.value) not in PLAIN and type(node.value) is not complex:
            raise self._unknown(f"a {type(node.value).__name__}")
        return bounded(node.value)

    def read_list(self, node: ast.List | ast.Tuple) -> list[Any]:
        return [self.value(part) for part in node.elts]

    read_tuple = read_list

    def read_binop(self, node: ast.BinOp) -> Any:
        return self._operation(type(node.op), self.value(node.left), self.value(node.right))

    def read_unaryop(self, node: ast.UnaryOp) -> Any:
        operand, name = self.value(node.operand), self.signs.get(type(node.op))
        if name is None:
            raise self._unknown(type(node.op).__name__)
        if is_remote(operand):
            return self._done(f"operator.{name}", operand)
        if name == "invert" or type(operand) not in _NUMBERS:
            raise OperationRefused(f"{name} is done with columns and numbers; {self._remedy}")
        return -operand if name == "neg" else +operand


def bounded(value: Any) -> Any:
    """Return the value. Raises OperationRefused if it is an integer of more than 64 bits."""
    if isinstance(value, int) and abs(value) >= _MOST:
        raise OperationRefused("a number of more than 64 bits fits in no column")
    return value


def _of_numbers(name: str, left: Any, right: Any) -> Any:
    """Return `operator.name` of two plain numbers. Raises OperationRefused for others and large results."""
    if not all(type(side) in _NUMBERS for side in (left, right)):
        raise OperationRefused(
            f"{name} of two values, of which none is a column; work it out before and give it by its name"
        )
    if name == "pow" and isinstance(right, int) and abs(right) > _MOST_POWER:
        left = float(left) if isinstance(left, int) else left
    try:
        return bounded(getattr(operator, name)(left, right))
    except (ArithmeticError, TypeError, ValueError) as error:
        raise OperationRefused(f"{name} of {left} and {right}: {error}") from None


# -- variables of the caller ---------------------------------------------------------------------------------


def has_rows(value: Any) -> bool:
    """Return True for an array, series or frame with at least one axis."""
    shape = getattr(value, "shape", None)
    return isinstance(shape, tuple) and len(shape) > 0


def placed(program: Program, value: Any) -> Any:
    """Place a copy of a value at the owner, and return a pointer to it. Raises UnsupportedValue."""
    return program.wrap(value, program.place(value), PUBLIC)
