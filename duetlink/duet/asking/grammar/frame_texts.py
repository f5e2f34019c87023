"""The methods `query` and `eval` that a pointer to a frame has."""

from __future__ import annotations

import sys
from collections import ChainMap
from collections.abc import Callable, Mapping
from typing import Any

from duetlink.duet.asking.grammar.frame_evaluation import evaluate, query
from duetlink.errors import OperationRefused

_METHODS: Mapping[str, Callable[[Any, str, Mapping[str, Any]], Any]] = {"query": query, "eval": evaluate}
# What says how pandas is to work; here nothing works otherwise
_HARMLESS: Mapping[str, tuple[Any, ...]] = {
    "engine": (None, "python", "numexpr"),
    "inplace": (False,),
    "parser": ("pandas",),
}


class FrameMethod:
    """A method of a frame that takes a text."""

    def __init__(self, frame: Any, name: str) -> None:
        self._frame = frame
        self._name = name

    def __call__(self, expr: str, **options: Any) -> Any:
        """As pandas' own. `@name` in the text is a variable where this is called.

        Raises:
            OperationRefused: the text or an option is not known; the message says what to write instead.
        """
        given = options.pop("local_dict", None)
        for name, value in options.items():
            if value not in _HARMLESS.get(name, ()):
                raise OperationRefused(f"{name}={value!r} is not known here; take what {self._name} returns")
        if given is None:
            caller = sys._getframe(1)
            given = ChainMap(dict(caller.f_locals), caller.f_globals)
        return _METHODS[self._name](self._frame, expr, given)

    def __repr__(self) -> str:
        return f"<method {self._name} of {self._frame!r}>"


def names(mock: Any) -> tuple[str, ...]:
    """The methods of these that a pointer has: those to frames of pandas."""
    is_frame = type(mock).__module__.partition(".")[0] == "pandas" and hasattr(mock, "columns")
    return tuple(_METHODS) if is_frame else ()
