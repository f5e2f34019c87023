"""The texts of `frame.query` and `frame.eval`, read into syntax trees.

The grammar is that of pandas: Python's expressions, where `&` and `|` bind as `and` and `or` do, `@name` is a
variable of the caller's, and a name in backticks is a column. Python's own parser reads it, and nothing
else of Python: no tree is ever compiled.
"""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

from duetlink.duet.asking.grammar.syntax_tree import read
from duetlink.errors import OperationRefused

MAX_TEXT = 20_000  # characters
MAX_DEPTH = 100  # of parts in parts
MAX_NODES = 4_000  # each may become a step
_LOCAL, _COLUMN = "__local_", "__column_"
_STRING = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_PARTS = re.compile(rf"({_STRING.pattern})|`([^`]*)`|@(?=\w)|#.*|[&|]")
_REMEDY = "write it by operators: frame[(frame.a > 3) & (frame.b == 'x')]"


class Statement(NamedTuple):
    """One line: `target = value`, or a value alone, where `target` is empty."""

    target: str
    value: ast.expr


class FrameText:
    """The lines of a text."""

    def __init__(self, text: str) -> None:
        """Raises OperationRefused: it is too long or deep, or no expression; the message says where."""
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
        """What a name of the tree is called: what stood in backticks, or the name itself."""
        number = name.removeprefix(_COLUMN)
        if number != name and number.isascii() and number.isdigit() and int(number) < len(self._columns):
            return self._columns[int(number)]
        return name

    @staticmethod
    def local(name: str) -> str:
        """The name of the caller's variable that a name of the tree stands for; empty: it stands for none."""
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
