"""Replaces `n_jobs` and `verbose`, which change no result, by the only values that a room has.

A room is one process, and its output is not shown. Scripts often say `n_jobs=-1` or `verbose=1`, which the
owner's guards refuse. The recorded step therefore says `n_jobs=1` and `verbose=0`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duetlink.compute.operations.allow_lists.parameters import library_of

_TERMS = {"n_jobs": 1, "verbose": 0}
_GRIDS = frozenset({"param_distributions", "param_grid"})
_LIBRARIES = ("sklearn", "statsmodels")


def room_keywords(operation: str, target: Any, keywords: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the keywords of an operation with `n_jobs` and `verbose` replaced.

    `target` is the first argument. Parameters of a part (`forest__n_jobs`) and those in a parameter grid are
    replaced too.
    """
    if not any(name in _GRIDS or _bare(name) in _TERMS for name in keywords):
        return keywords
    if library_of(operation, type(target)) not in _LIBRARIES:
        return keywords
    return {
        name: {key: _term(key, item) for key, item in value.items()}
        if name in _GRIDS and isinstance(value, dict)
        else _term(name, value)
        for name, value in keywords.items()
    }


def _bare(name: str) -> str:
    return name.rpartition("__")[2]


def _term(name: Any, value: Any) -> Any:
    term = _TERMS.get(_bare(name)) if isinstance(name, str) else None
    if term is None:
        return value
    if isinstance(value, (list, tuple)):
        return type(value)(_term(name, item) for item in value)
    return type(value)(term) if isinstance(value, int) else value  # a bool stays one
