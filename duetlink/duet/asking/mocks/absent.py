"""Replaces a KeyError of a mock by PrivateValue if the key is a label or a group.

Which labels and groups exist depends on the data, so the mock's KeyError says nothing about the real object.
A missing column is different: the mock has the same columns, so its KeyError is right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from duetlink.compute.operations.sizes.mask import COLUMNS, NAMES, PUBLIC
from duetlink.errors import PrivateValue


def absent(
    operation: str, arguments: Sequence[Any], keywords: Mapping[str, Any], error: KeyError
) -> PrivateValue | None:
    """Return the exception to raise instead of the mock's `error`; None if `error` is true for any data."""
    target = arguments[0] if arguments else None
    advice = _advice(operation, target, arguments, keywords) if hasattr(type(target), "_is_remote") else None
    if target is None or advice is None:
        return None
    key = error.args[0] if error.args else ""
    return PrivateValue(
        f"{key!r} is not in the mock of {target._title()}, which is made up, and may be in the data: "
        f"{advice}; ask for all of it with .get(reason=…); or let the owner name it in the mock, "
        "Mock(categories={column: [label, …]})"
    )


def _advice(operation: str, target: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> str | None:
    mock = target._mock
    if hasattr(mock, "ngroups"):
        if operation != ".get_group":
            return None
        return "take the rows of a group by frame[frame[column] == label]"
    if hasattr(mock, "columns"):
        if target._hidden & (COLUMNS | NAMES):
            return "take it if it exists by .reindex(columns=[label])"
        of_rows = operation == ".xs" or (operation == ".drop" and "columns" not in keywords)
        if not of_rows or keywords.get("axis", 0) in (1, "columns"):
            return None
        return "take the rows that exist by .reindex([label])"
    table = getattr(mock, "obj", None)  # the frame of a .loc
    if hasattr(table, "columns") and type(arguments[1]) is tuple and _lacks_column(table, arguments[1][-1]):
        return None
    if isinstance(mock, Mapping):
        return None if target._hidden == PUBLIC else "list the keys by duet.remote(builtins).list(x)"
    if hasattr(mock, "iloc") or table is not None or hasattr(mock, "nlevels"):
        return "take it if it exists by .reindex([label])"
    return None


def _lacks_column(table: Any, key: Any) -> bool:
    keys = key if isinstance(key, list) else [key]
    return table.index.nlevels == 1 and any(isinstance(one, str) and one not in table for one in keys)
