"""Nodes of a Polars expression, as JSON has them: a text, or a dict whose one key is the node's kind."""

from __future__ import annotations

import io
import re
from typing import Any

from duetlink.errors import OperationRefused

BY_HAND = "make it by pl = duet.remote(polars)"
OWN = (
    "an expression cannot hold a Python function; have the owner review yours as a whole: @duet.remote; "
    "NumPy's are methods, pl.col('a').sin(); "
    f"where Polars has put it there, as in cum_sum_horizontal, {BY_HAND}"
)
WRITES_FUNCTIONS = frozenset(
    {"AnonymousFunction", "AnonymousAgg", "FoldHorizontal", "ReduceHorizontal", "CumFoldHorizontal"}
    | {"CumReduceHorizontal", "Map", "FfiPlugin", "DataTypeFunction"}
)
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def unknown(what: str) -> OperationRefused:
    """The error that says what is not known, and what to do instead."""
    return OperationRefused(f"{what} of a Polars expression is not known here; {BY_HAND}")


def snake(name: str) -> str:
    """`IsNotNan` as `is_not_nan`."""
    return _WORD.sub("_", name).lower()


def opened(node: Any) -> tuple[str, Any]:
    """The kind of a node, and what is inside; None where there is nothing."""
    if isinstance(node, str):
        return node, None
    if isinstance(node, dict) and len(node) == 1:
        ((kind, inside),) = node.items()
        return kind, inside
    raise unknown(f"a part {str(node)[:60]!r}")


def series_of(ipc: list[int]) -> Any:
    """What Polars writes of a list of values: a stream of Arrow, as bytes."""
    import polars

    try:
        return polars.read_ipc_stream(io.BytesIO(bytes(ipc))).to_series()
    except Exception as error:  # of the library
        raise ValueError(type(error).__name__) from error


def span(written: dict[str, Any]) -> str:
    """A span of time as Polars reads it, such as `-1mo2d`."""
    rest, unit = written["nsecs"], "i" if written["parsed_int"] else "ns"
    if unit == "ns" and rest % 1000 == 0:  # a range that is given nanoseconds would be of nanoseconds
        rest, unit = rest // 1000, "us"
    parts = [(written["months"], "mo"), (written["weeks"], "w"), (written["days"], "d"), (rest, unit)]
    text = "".join(f"{count}{name}" for count, name in parts if count)
    return ("-" if written["negative"] else "") + (text or "0us")
