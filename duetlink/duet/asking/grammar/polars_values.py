"""Columns, selectors, values and types in a Polars expression."""

from __future__ import annotations

import datetime
import decimal
import re
from typing import Any

from duetlink.duet.asking.grammar.call import ParsedCall
from duetlink.duet.asking.grammar.polars_node import opened, series_of, snake, unknown
from duetlink.duet.asking.grammar.polars_types import type_of, zone_of

_EPOCH = datetime.date(1970, 1, 1)
_ALIKE = ("Union", "Difference", "Intersect", "ExclusiveOr")
_JOINED = dict(zip(_ALIKE, ("operator.or_", "operator.sub", "operator.and_", "operator.xor"), strict=True))
_BY_KIND = ("Numeric", "Integer", "SignedInteger", "UnsignedInteger", "Float", "Temporal", "Categorical")


class Values:
    """Parses nodes that hold no other nodes, and selectors."""

    def __init__(self, not_finite: float) -> None:
        """`not_finite` is used for each number that JSON cannot express (NaN or an infinity)."""
        self._not_finite = not_finite

    def column(self, name: str) -> Any:
        return ParsedCall("polars.col", (name,))

    def selector(self, node: Any) -> Any:
        """Parse a selector inside an expression: it becomes an expression of columns."""
        kind, inside = opened(node)
        if kind == "ByName" and inside["strict"]:
            return ParsedCall("polars.col", (inside["names"],))
        if kind == "Matches" and inside[0] == "^" and inside[-1] == "$":
            return ParsedCall("polars.col", (inside,))
        return ParsedCall(".as_expr", (self._selected(node),))

    def selection(self, node: Any) -> Any:
        """Parse a selector that is the whole expression, and stays a selector. Raises OperationRefused."""
        kind, inside = opened(node)
        if kind != "Selector":
            raise unknown(f"the selector {kind!r}")
        try:
            return self._selected(inside)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise unknown(f"a selector ({type(error).__name__})") from None

    def _selected(self, node: Any) -> Any:
        """Parse a selector into one that operators can combine with others."""
        kind, inside = opened(node)
        if kind == "Wildcard":
            return ParsedCall("polars.selectors.all")
        if kind == "ByName":
            return ParsedCall(
                "polars.selectors.by_name", tuple(inside["names"]), {"require_all": inside["strict"]}
            )
        if kind == "ByIndex":
            return ParsedCall(
                "polars.selectors.by_index", (inside["indices"],), {"require_all": inside["strict"]}
            )
        if kind == "Matches":
            return ParsedCall("polars.selectors.matches", (inside,))
        if kind in _JOINED:
            return ParsedCall(_JOINED[kind], tuple(map(self._selected, inside)))
        if kind == "ByDType":
            kind, inside = opened(inside)
            if kind == "AnyOf":
                return ParsedCall("polars.selectors.by_dtype", ([self.type(part) for part in inside],))
            if kind in ("Datetime", "Duration") or kind in _BY_KIND:
                return ParsedCall(f"polars.selectors.{snake(kind)}")
        raise unknown(f"the selector {kind!r}")

    def literal(self, node: Any) -> Any:
        kind, inside = opened(node)
        if kind == "Dyn":
            kind, inside = opened(inside)
            if kind in ("Int", "Float"):
                return self._lit(self._number(inside))
        if kind == "Series":
            return self._lit(series_of(inside))
        if kind == "Scalar":
            return self._scalar(*opened(inside))
        raise unknown(f"the value {kind!r}")

    def _lit(self, value: Any, dtype: Any = None) -> Any:
        return ParsedCall("polars.lit", (value,), {} if dtype is None else {"dtype": dtype})

    def _number(self, written: Any) -> Any:
        return self._not_finite if written is None else written

    def _scalar(self, kind: str, inside: Any) -> Any:
        import polars

        if kind == "Null":
            return self._lit(None)
        if kind in ("Boolean", "String"):
            return self._lit(inside)
        if kind == "Binary":
            return self._lit(bytes(inside))
        if kind == "Date":
            return self._lit(_EPOCH + datetime.timedelta(days=inside))
        if kind == "Time":
            return self._lit(
                (datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=inside // 1000)).time()
            )
        if kind == "Datetime" and inside[1] == "Microseconds" and zone_of(inside[2]) in (None, "UTC"):
            zone = datetime.UTC if inside[2] else None
            return self._lit(
                datetime.datetime(1970, 1, 1, tzinfo=zone) + datetime.timedelta(microseconds=inside[0])
            )
        if kind == "Duration" and inside[1] == "Microseconds":
            return self._lit(datetime.timedelta(microseconds=inside[0]))
        if kind == "Decimal":
            return self._lit(decimal.Decimal(inside[0]).scaleb(-inside[2]))
        if kind == "List":
            return self._lit(series_of(inside).to_list())
        if kind in ("Float32", "Float64") or re.fullmatch(r"U?Int(8|16|32|64|128)", kind):
            return self._lit(self._number(inside), getattr(polars, kind))
        raise unknown(f"the value {kind!r}")

    def type(self, written: Any) -> Any:
        """Parse a column type into a tree. Raises OperationRefused."""
        return type_of(written, lambda strings: series_of(strings).to_list())
