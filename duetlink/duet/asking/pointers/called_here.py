"""Functions that take the frame: `frame.assign(z=lambda f: f.x + 1)`, `frame.pipe(f)`, `frame.where(f)`.

They are called here with the pointer, so their operations are recorded like any others. The functions
themselves do not travel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

METHODS = frozenset({"assign", "mask", "pipe", "where"})


def method_of(remote: Any, name: str, listed: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return the method `name` (one of METHODS) that calls functions here; None if the object has none.

    `listed` is the recorded method for arguments that are no functions.
    """
    mock = remote._mock
    if name == "pipe":
        return _pipe(remote) if hasattr(mock, "pipe") else None
    if not hasattr(mock, "iloc"):
        return None
    return _assign(remote, listed) if name == "assign" else _chosen(remote, listed)


def key_of(remote: Any, key: Any) -> Any:
    """Call the functions in the key of `frame[…]` or `frame.loc[…]`, and return the resulting key."""
    if type(key) is tuple:
        return tuple(key_of(remote, part) for part in key)
    frame = getattr(remote, "_table", remote)
    return key(frame) if hasattr(frame._mock, "iloc") and _is_called(key) else key


def _is_called(value: Any) -> bool:
    return callable(value) and not hasattr(type(value), "_is_remote")


def _own(remote: Any) -> Any:
    """Return the argument for the notebook's function: a copy of a pandas frame, since it may set columns."""
    return remote.copy() if hasattr(remote._mock, "iloc") else remote


def _pipe(remote: Any) -> Callable[..., Any]:
    def pipe(function: Any, *arguments: Any, **keywords: Any) -> Any:
        if isinstance(function, tuple):  # (function, name of the parameter that takes the frame)
            function, name = function
            return function(*arguments, **{name: _own(remote)}, **keywords)
        return function(_own(remote), *arguments, **keywords)

    return pipe


def _assign(remote: Any, listed: Callable[..., Any]) -> Callable[..., Any]:
    def assign(**columns: Any) -> Any:
        if not any(map(_is_called, columns.values())):
            return listed(**columns)
        frame = _own(remote)
        for name, value in columns.items():  # each sees the columns before it
            frame = frame.assign(**{name: value(frame) if _is_called(value) else value})
        return frame

    return assign


def _chosen(remote: Any, listed: Callable[..., Any]) -> Callable[..., Any]:
    """Make `where` and `mask`, whose condition and replacement may be functions."""

    def choose(*arguments: Any, **keywords: Any) -> Any:
        return listed(
            *(value(_own(remote)) if _is_called(value) else value for value in arguments),
            **{name: value(_own(remote)) if _is_called(value) else value for name, value in keywords.items()},
        )

    return choose
