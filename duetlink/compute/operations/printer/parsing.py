"""Parses Python source that is not run here."""

from __future__ import annotations

import ast
import contextlib
import re
import warnings

_FILE = "<read, not run>"


def parsed(source: str) -> ast.Module:
    """Return the syntax tree. Python's warnings about the source are not shown: they are for its author.

    Raises:
        SyntaxError, ValueError, MemoryError, RecursionError: it is no Python, or too deeply nested.
    """
    ours = ("ignore", None, Warning, re.compile(re.escape(_FILE)), 0)
    if ours not in warnings.filters:  # adding it twice would make Python repeat earlier warnings
        warnings.filterwarnings("ignore", module=re.escape(_FILE))
    # CPython before 3.11.8 may fail if another thread parses at the same time (gh-106905)
    with contextlib.suppress(SystemError):
        return ast.parse(source, _FILE)
    return ast.parse(source, _FILE)
