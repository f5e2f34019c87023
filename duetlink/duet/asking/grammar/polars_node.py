"""Helpers for the JSON of Polars expressions. A node is a text, or a dict whose only key is its kind."""

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
    """Return the error for an unknown part, with the advice to use `duet.remote(polars)`."""
    return OperationRefused(f"{what} of a Polars expression is not known here; {BY_HAND}")


def snake(name: str) -> str:
    """Convert `IsNotNan` to `is_not_nan`."""
    return _WORD.sub("_", name).lower()


def opened(node: Any) -> tuple[str, Any]:
    """Return the kind of a node and its content; the content is None if the node has none."""
    if isinstance(node, str):
        return node, None
    if isinstance(node, dict) and len(node) == 1:
        ((kind, inside),) = node.items()
        return kind, inside
    raise unknown(f"a part {str(node)[:60]!r}")


def series_of(ipc: list[int]) -> Any:
    """Read a list of values, which Polars serialises as the bytes of an Arrow stream. Raises ValueError."""
    import polars

    try:
        return polars.read_ipc_stream(io.BytesIO(bytes(ipc))).to_series()
    except Exception as error:  # raised by Polars
        raise ValueError(type(error).__name__) from error


def span(written: dict[str, Any]) -> str:
    """Convert a span of time to the text that Polars' functions take, such as `-1mo2d`."""
    rest, unit = written["nsecs"], "i" if written["parsed_int"] else "ns"
    if unit == "ns" and rest % 1000 == 0:  # a range with a step in nanoseconds would have that resolution
        rest, unit = rest // 1000, "us"
    parts = [(written["months"], "mo"), (written["weeks"], "w"), (written["days"], "d"), (rest, unit)]
    text = "".join(f"{count}{name}" for count, name in parts if count)
    return ("-" if written["negative"] else "") + (text or "0us")
