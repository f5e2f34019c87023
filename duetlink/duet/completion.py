"""TAB completion for pointers in IPython, without recording a step or asking the owner.

IPython completes a variable by calling `dir` on it, but `duet.store["people"].` only by its type. The names
after it, and those after `people.age.`, are the mock's, so they are looked up in the mock here.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Mapping
from typing import Any

from duetlink.duet.asking.pointers.remote import Remote
from duetlink.duet.duet import Duet
from duetlink.duet.store import Store

_ASKS = ("dp", "get", "mock", "request")
_NOT_IN_NAMES = " \t\"'([{,=+-*/%&|^~<>:;!"


def offer_completions() -> None:
    """Register the completer with IPython, if this process runs in it. Safe to call twice."""
    ipython = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython is not None else None
    matchers = getattr(getattr(shell, "Completer", None), "custom_matchers", None)
    if matchers is None or any(getattr(known, "matcher_identifier", "") == _NAME for known in matchers):
        return
    from IPython.core.completer import SimpleCompletion, context_matcher

    @context_matcher(identifier=_NAME)  # type: ignore[untyped-decorator]
    def match(context: Any) -> dict[str, Any]:
        begun, names = offered(context.text_until_cursor, shell.user_ns)
        found = [SimpleCompletion(name, type="instance") for name in names if name.startswith(begun)]
        return {"completions": found, "matched_fragment": begun, "suppress": False}

    matchers.append(match)


_NAME = "duetlink.pointers"
_KEY = re.compile(r"\[\s*['\"](?P<begun>[^'\"\]\\]*)$")
_ATTRIBUTE = re.compile(r"\.(?P<begun>\w*)$")


def offered(text: str, variables: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return the name that is begun at the end of a line, and the names that can complete it."""
    for pattern, names_of in ((_KEY, keys_behind), (_ATTRIBUTE, names_behind)):
        if (found := pattern.search(text)) is not None:
            expression = last_expression(text[: found.start()])
            return found["begun"], names_of(expression, variables) if expression else []
    return "", []


def last_expression(text: str) -> str:
    """Return the expression at the end of a line: a name with attributes and keys. Empty if it does not end
    with one.
    """
    for start in range(len(text)):
        if start == 0 or text[start - 1] in _NOT_IN_NAMES:
            piece = text[start:]
            try:
                tree = ast.parse(piece, mode="eval").body
            except (SyntaxError, ValueError):
                continue
            if isinstance(tree, (ast.Name, ast.Attribute, ast.Subscript)):
                return piece
    return ""


def names_behind(expression: str, variables: Mapping[str, Any]) -> list[str]:
    """Return the attributes of the pointer that an expression stands for: a variable with a duet, its store
    or a pointer, followed by attributes and keys. Nothing else is evaluated.
    """
    found = _behind(expression, variables)
    if isinstance(found, Remote):
        return [name for name in dir(found) if not name.startswith("_")]
    if not isinstance(found, _Mock):
        return []
    mock = found.mock
    columns = [str(name) for name in getattr(mock, "columns", ()) if str(name).isidentifier()]
    return sorted({*found.remote._program.allowed.names(type(mock)), *columns, *_ASKS})


def keys_behind(expression: str, variables: Mapping[str, Any]) -> list[str]:
    """Return the keys that can stand between brackets: names of a store, columns of a frame. Empty for a
    variable, which IPython asks itself.
    """
    if expression.isidentifier():
        return []
    found = _behind(expression, variables)
    if isinstance(found, Store):
        return list(found)
    return found._ipython_key_completions_() if isinstance(found, Remote) else []


def _behind(expression: str, variables: Mapping[str, Any]) -> Any:
    try:
        return _found(ast.parse(expression, mode="eval").body, variables)
    except Exception:  # from a library, for example for an unknown column: no completions
        return None


class _Mock:
    """A part of a pointer's mock, such as a column."""

    def __init__(self, remote: Remote, mock: Any) -> None:
        self.remote = remote
        self.mock = mock


def _found(node: ast.expr, variables: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return variables.get(node.id)
    if isinstance(node, ast.Attribute):
        of = _found(node.value, variables)
        if isinstance(of, Duet):
            return of.store if node.attr == "store" else None
        return _part(of, node.attr)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        of, key = _found(node.value, variables), node.slice.value
        return of[key] if isinstance(of, Store) and isinstance(key, str) else _part(of, key)
    return None


def _part(of: Any, name: Any) -> _Mock | None:
    """Return a column of a pointer's mock, or an accessor such as `.str`, by its name."""
    if isinstance(of, _Mock):
        remote, mock = of.remote, of.mock
    elif isinstance(of, Remote):
        remote, mock = of, of._mock
    else:
        return None
    if not isinstance(name, str):
        return None
    if name in getattr(mock, "columns", ()):
        return _Mock(remote, mock[name])
    if remote._program.allowed.attribute(type(mock), name) is not None:
        return _Mock(remote, getattr(mock, name))
    return None
