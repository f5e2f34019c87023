"""What TAB offers behind a pointer in IPython, where it would have to run code to find out.

IPython completes a variable by asking it, and `duet.store["people"].` by its type. What the mock has, and
what `people.age.` has, only its mock knows: it is looked up here, where nothing is recorded and nothing is
asked of the owner.
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
    """Let IPython ask `names_behind`, if this runs in it. Again is harmless."""
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
    """What is begun at the end of a line, and the names that may stand there."""
    for pattern, names_of in ((_KEY, keys_behind), (_ATTRIBUTE, names_behind)):
        if (found := pattern.search(text)) is not None:
            expression = last_expression(text[: found.start()])
            return found["begun"], names_of(expression, variables) if expression else []
    return "", []


def last_expression(text: str) -> str:
    """The end of a line that is a name with attributes and keys; empty: it does not end with one."""
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
    """What a pointer has that this expression is: of a variable that holds a duet, its store or a pointer,
    with attributes and keys behind it. Nothing else is looked up.
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
    """What may stand between brackets: names of a store, columns of a frame. Of a variable IPython asks."""
    if expression.isidentifier():
        return []
    found = _behind(expression, variables)
    if isinstance(found, Store):
        return list(found)
    return found._ipython_key_completions_() if isinstance(found, Remote) else []


def _behind(expression: str, variables: Mapping[str, Any]) -> Any:
    try:
        return _found(ast.parse(expression, mode="eval").body, variables)
    except Exception:  # of a library, for a column that it does not have: then nothing is offered
        return None


class _Mock:
    """A part of a pointer's mock."""

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
    """A column of a pointer's mock, or an accessor such as `.str`, by its name."""
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
