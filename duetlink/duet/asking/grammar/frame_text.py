"""Parses the texts of `frame.query` and `frame.eval` into Python syntax trees.

The grammar is that of pandas: Python expressions in which `&` and `|` have the precedence of `and` and `or`,
`@name` is a variable of the caller, and a name in backticks is a column. Only Python's parser is used; no
tree is ever compiled.
"""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

from duetlink.duet.asking.grammar.syntax_tree import read
from duetlink.errors import OperationRefused

MAX_TEXT = 20_000  # characters
MAX_DEPTH = 100  # levels of nested parts
MAX_NODES = 4_000  # each may become a step
_LOCAL, _COLUMN = "__local_", "__column_"
_STRING = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_PARTS = re.compile(rf"({_STRING.pattern})|`([^`]*)`|@(?=\w)|#.*|[&|]")
_REMEDY = "write it by operators: frame[(frame.a > 3) & (frame.b == 'x')]"


class Statement(NamedTuple):
    """One line: `target = value`, or only a value; `target` is then empty."""

    target: str
    value: ast.expr


class FrameText:
    """The parsed lines of a text."""

    def __init__(self, text: str) -> None:
        """Parse a text.

        Raises:
            OperationRefused: it is too long, nested too deep, or no expression; the message says where.
        """
        if not isinstance(text, str):
            raise OperationRefused(f"a text is wanted, not a {type(text).__name__}")
        if len(text) > MAX_TEXT:
            raise OperationRefused(f"a text of {len(text):,} characters is over {MAX_TEXT:,}; {_REMEDY}")
        if _LOCAL in text or _COLUMN in text or "\0" in text:
            raise OperationRefused(f"{_LOCAL}, {_COLUMN} and NUL cannot be in a text; {_REMEDY}")
        self._columns: list[str] = []
        self.statements = [self._statement(line.strip()) for line in text.splitlines() if line.strip()]
        if not self.statements:
            raise OperationRefused("the text is empty")

    def column(self, name: str) -> str:
        """Return the column that a name in the tree stands for: the text in backticks, or the name itself."""
        number = name.removeprefix(_COLUMN)
        if number != name and number.isascii() and number.isdigit() and int(number) < len(self._columns):
            return self._columns[int(number)]
        return name

    @staticmethod
    def local(name: str) -> str:
        """Return the caller's variable that a name in the tree stands for; an empty text if it is none."""
        return name.removeprefix(_LOCAL) if name.startswith(_LOCAL) else ""

    def _statement(self, line: str) -> Statement:
        python = _PARTS.sub(self._part, line).strip()
        body = read(python, most_nodes=MAX_NODES, most_depth=MAX_DEPTH, remedy=_REMEDY)
        if len(body) == 1:
            if isinstance(body[0], ast.Expr):
                return Statement("", body[0].value)
            if isinstance(body[0], ast.Assign) and len(body[0].targets) == 1:
                target = body[0].targets[0]
                if isinstance(target, ast.Name) and _LOCAL not in target.id and _COLUMN not in target.id:
                    return Statement(target.id, body[0].value)
                raise OperationRefused(
                    f"{line[:200]!r}: a line sets one column by its bare name; write frame.assign(…)"
                )
        raise OperationRefused(f"{line[:200]!r} is no expression and sets no column; {_REMEDY}")

    def _part(self, found: re.Match[str]) -> str:
        text = found[0]
        if text[0] in "'\"":
            return text
        if text[0] == "`":
            self._columns.append(found[2])
            return f"{_COLUMN}{len(self._columns) - 1}"
        return {"@": _LOCAL, "&": " and ", "|": " or ", "#": ""}[text[0]]
