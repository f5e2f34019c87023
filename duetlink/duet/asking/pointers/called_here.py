"""Functions that pandas and Polars call with the frame itself: they are called here, with its pointer, and
what they do to it is recorded as any other work is. Nothing of them travels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

METHODS = frozenset({"assign", "mask", "pipe", "where"})


def method_of(remote: Any, name: str, listed: Callable[..., Any]) -> Callable[..., Any] | None:
    """The method of METHODS of what `remote` points to; None: its kind has none that takes a function.
    `listed` is the method as the lists have it.
    """
    mock = remote._mock
    if name == "pipe":
        return _pipe(remote) if hasattr(mock, "pipe") else None
    if not hasattr(mock, "iloc"):
        return None
    return _assign(remote, listed) if name == "assign" else _chosen(remote, listed)


def key_of(remote: Any, key: Any) -> Any:
    """What stands between the brackets of `frame[…]` and `frame.loc[…]`, once its functions were called."""
    if type(key) is tuple:
        return tuple(key_of(remote, part) for part in key)
    frame = getattr(remote, "_table", remote)
    return key(frame) if hasattr(frame._mock, "iloc") and _is_called(key) else key


def _is_called(value: Any) -> bool:
    return callable(value) and not hasattr(type(value), "_is_remote")


def _own(remote: Any) -> Any:
    """What a function of the notebook gets: it may set columns, which pandas does to a copy."""
    return remote.copy() if hasattr(remote._mock, "iloc") else remote


def _pipe(remote: Any) -> Callable[..., Any]:
    def pipe(function: Any, *arguments: Any, **keywords: Any) -> Any:
        if isinstance(function, tuple):  # with the name of the parameter that gets the frame
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
    """`where` and `mask`, whose condition and other values may be functions."""

    def choose(*arguments: Any, **keywords: Any) -> Any:
        return listed(
            *(value(_own(remote)) if _is_called(value) else value for value in arguments),
            **{name: value(_own(remote)) if _is_called(value) else value for name, value in keywords.items()},
        )

    return choose
