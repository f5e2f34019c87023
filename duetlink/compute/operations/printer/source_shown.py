"""Prints a function's source for the person who approves it. Pure.

A reader starts at the top and may never reach the end. So lines that do nothing are folded into one line that
counts them, and a long source says at its top how many lines it has and how it ends. A fold contains only
comments, empty lines, `pass` and constants whose value is unused, as Python's parser finds them in the exact
text that is run. The first text of a function or class is not folded, since the function may read it. If the
parser fails, nothing is folded. Characters that may be mistaken for others are written as their codes.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from duetlink.compute.operations.printer.lines import ENDING, MOST_LINES, heading
from duetlink.compute.operations.printer.literal import marked
from duetlink.compute.operations.printer.parsing import parsed

MAX_EMPTY_LINES = 5  # consecutive empty lines that are shown; more would push the next lines out of sight
MAX_IDLE_LINES = 20  # the same for other lines that do nothing
_KEPT = 10  # lines kept of a longer run: the first lines of a comment tell its subject

_EMPTY_LINES = re.compile(rf"(?:^[ \t]*\n){{{MAX_EMPTY_LINES + 1},}}", re.MULTILINE)
_BETWEEN = re.compile(rb"[ \t;]*")
_BEHIND = re.compile(rb"[ \t;]*(?:#.*)?")
# t-strings came with Python 3.14
_TEXTS = (ast.Constant, ast.JoinedStr, getattr(ast, "TemplateStr", ast.JoinedStr))


class _Idle(NamedTuple):
    """Whole lines that belong together and do nothing, counted from 0."""

    start: int
    end: int  # the line after the last one
    indent: str | None  # indentation of statements; None: comments or empty lines


def shown_source(source: str) -> str:
    """Return the text that a person reads in place of the source. May take 1 s for the longest."""
    lines = source.split("\n")
    idle = {unit.start: unit for unit in _idle(source, lines)}
    shown = "\n".join(_folded(marked(source).split("\n"), idle))
    shown = _EMPTY_LINES.sub(lambda found: _fold(found[0].count("\n"), "empty lines") + "\n", shown)
    count = len(lines) - source.endswith("\n")
    if shown.count("\n") <= MOST_LINES:
        return shown
    nothing = {line for unit in idle.values() for line in range(unit.start, unit.end)}
    working = [line for line in range(len(lines)) if line not in nothing]
    return "\n".join([*heading(count, [marked(lines[line]) for line in working[-ENDING:]]), shown])


def _fold(count: int, what: str) -> str:
    return f"# \u2026 {count:,} {what} \u2026"


def _folded(lines: list[str], idle: dict[int, _Idle]) -> Iterator[str]:
    """Yield the lines, with the end of each long run of idle lines replaced by one line."""
    line = 0
    while line < len(lines):
        units = list(_stretch(line, idle))
        end = units[-1].end if units else line + 1
        if end - line > MAX_IDLE_LINES and any(text.strip() for text in lines[line:end]):
            kept = line
            for unit in units:
                if unit.end - line > _KEPT:
                    break
                kept = unit.end
            yield from lines[line:kept]
            indent = next(
                (unit.indent for unit in units if unit.indent is not None and unit.end > kept), None
            )
            note = _fold(end - kept, "lines that do nothing")
            yield note if indent is None else f"{indent}pass  {note}"
        else:
            yield from lines[line:end]
        line = end


def _stretch(line: int, idle: dict[int, _Idle]) -> Iterator[_Idle]:
    """Yield consecutive idle lines of one block, since a fold may replace a whole block."""
    indent: str | None = None
    while line in idle:
        unit = idle[line]
        if indent is not None and unit.indent not in (None, indent):
            return
        indent = unit.indent if indent is None else indent
        yield unit
        line = unit.end


def _idle(source: str, lines: list[str]) -> Iterator[_Idle]:
    """Yield all idle lines; none if the source is no Python."""
    tree = _parsed(source)
    if tree is None:
        return
    within: set[int] = set()  # lines that begin within a text literal
    statements: list[ast.stmt] = []
    read: set[ast.stmt] = set()  # first statements, which may be docstrings that the code reads
    for node in ast.walk(tree):
        if isinstance(node, _TEXTS):
            within.update(range(node.lineno, node.end_lineno or 0))
        elif isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            read.update(node.body[:1])
        elif isinstance(node, ast.Pass) or (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        ):
            statements.append(node)
    for number, line in enumerate(lines):
        if number not in within and (not line.strip() or line.lstrip().startswith("#")):
            yield _Idle(number, number + 1, None)
    alone = [node for node in statements if node not in read or isinstance(node, ast.Pass)]
    yield from _statements(sorted(alone, key=lambda node: (node.lineno, node.col_offset)), lines)


def _statements(statements: Sequence[ast.stmt], lines: list[str]) -> Iterator[_Idle]:
    """Yield the statements that share their lines with no other code."""
    encoded = [line.encode() for line in lines]  # the parser counts columns in UTF-8 bytes
    index = 0
    while index < len(statements):
        first = last = statements[index]
        index += 1
        while index < len(statements) and _follows(last, statements[index], encoded):
            last = statements[index]
            index += 1
        before = encoded[first.lineno - 1][: first.col_offset]
        behind = encoded[_end(last) - 1][last.end_col_offset :]
        if not before.strip() and _BEHIND.fullmatch(behind):
            yield _Idle(first.lineno - 1, _end(last), before.decode())


def _follows(one: ast.stmt, other: ast.stmt, lines: Sequence[bytes]) -> bool:
    """Return True if a statement is on the same line as another, with only a semicolon between."""
    between = lines[other.lineno - 1][one.end_col_offset : other.col_offset]
    return _end(one) == other.lineno and _BETWEEN.fullmatch(between) is not None


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _parsed(source: str) -> ast.Module | None:
    """Return the tree of the exact text that is run; None if Python cannot parse it."""
    if "\r" in source:  # Python would split the lines differently
        return None
    with contextlib.suppress(SyntaxError, ValueError, MemoryError, RecursionError):
        return parsed(source)
    return None
