"""Parses serialised column types of Polars into trees of calls."""

from __future__ import annotations

from typing import Any

from duetlink.duet.asking.grammar.call import ParsedCall
from duetlink.errors import OperationRefused

UNITS = {"Nanoseconds": "ns", "Microseconds": "us", "Milliseconds": "ms"}


def zone_of(written: Any) -> Any:
    return written["inner"] if isinstance(written, dict) else written


def type_of(written: Any, strings: Any) -> Any:
    """Parse a column type. `strings` reads the categories of an Enum. Raises OperationRefused."""
    import polars

    if isinstance(written, str):
        found = getattr(polars, written, None) if written.isidentifier() else None
        if isinstance(found, polars.datatypes.DataTypeClass):
            return found
    elif isinstance(written, dict) and len(written) == 1:
        ((kind, inside),) = written.items()
        if kind == "Literal":  # newer versions: a type may also be given by an expression
            return type_of(inside, strings)
        if kind == "Datetime":
            return ParsedCall("polars.Datetime", (UNITS[inside[0]], zone_of(inside[1])))
        if kind == "Duration":
            return ParsedCall("polars.Duration", (UNITS[inside],))
        if kind == "Decimal":
            return ParsedCall("polars.Decimal", tuple(inside))
        if kind == "List":
            return ParsedCall("polars.List", (type_of(inside, strings),))
        if kind == "Array":
            return ParsedCall("polars.Array", (type_of(inside[0], strings), inside[1]))
        if kind == "Enum":
            return ParsedCall("polars.Enum", (strings(inside["strings"]),))
        if kind == "Struct":
            return ParsedCall(
                "polars.Struct",
                (
                    [
                        ParsedCall("polars.Field", (part["name"], type_of(part["dtype"], strings)))
                        for part in inside
                    ],
                ),
            )
    raise OperationRefused(
        f"the column type {str(written)[:80]} is not known here; make the expression by "
        "pl = duet.remote(polars), or cast to a type that the lists have"
    )
