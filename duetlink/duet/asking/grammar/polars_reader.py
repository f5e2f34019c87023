"""Parses the JSON of a Polars expression into a tree of calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from duetlink.duet.asking.grammar.call import ParsedCall
from duetlink.duet.asking.grammar.polars_functions import Functions
from duetlink.duet.asking.grammar.polars_node import OWN, WRITES_FUNCTIONS, opened, snake, span, unknown
from duetlink.duet.asking.grammar.polars_table import OPERATORS
from duetlink.errors import OperationRefused


class Reader(Functions):
    """Parses the nodes of expressions."""

    def expression(self, node: Any) -> Any:
        """Parse a node into a tree. Raises OperationRefused."""
        kind, inside = opened(node)
        if kind in WRITES_FUNCTIONS:
            raise OperationRefused(OWN)
        read = _KINDS.get(kind)
        if read is None:
            raise unknown(f"the part {kind!r}")
        try:
            return read(self, inside)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise unknown(f"the part {kind!r} ({type(error).__name__})") from None

    def operator(self, node: dict[str, Any]) -> Any:
        operation = OPERATORS.get(node["op"])
        if operation is None:
            raise unknown(f"the operator {node['op']!r}")
        return ParsedCall(operation, (self.expression(node["left"]), self.expression(node["right"])))

    def alias(self, node: list[Any]) -> Any:
        return ParsedCall(".alias", (self.expression(node[0]), node[1]))

    def keep_name(self, node: Any) -> Any:
        return ParsedCall(".keep", (ParsedCall("@name", (self.expression(node),)),))

    def renamed(self, node: dict[str, Any]) -> Any:
        kind, inside = opened(node["function"])
        names = ParsedCall("@name", (self.expression(node["expr"]),))
        if kind in ("Prefix", "Suffix"):
            return ParsedCall(f".{kind.lower()}", (names, inside))
        if kind in ("ToUppercase", "ToLowercase"):
            return ParsedCall(f".{snake(kind)}", (names,))
        if kind == "Replace":
            return ParsedCall(
                ".replace", (names, inside["pattern"], inside["value"]), {"literal": inside["literal"]}
            )
        raise OperationRefused(OWN) if kind in ("Map", "Python") else unknown(f"the renaming {kind!r}")

    def cast(self, node: dict[str, Any]) -> Any:
        if node["dtype"] == {"Literal": {"Datetime": ["Microseconds", None]}} and "Literal" in node["expr"]:
            kind, inside = opened(node["expr"]["Literal"].get("Scalar", "none"))
            if kind == "Datetime" and inside[2] is not None:  # versions before 2: a time without a zone
                return self.literal({"Scalar": {"Datetime": [*inside[:2], None]}})
        options = {
            "Strict": {},
            "NonStrict": {"strict": False},
            "Overflowing": {"wrap_numerical": True},
        }[node["options"]]
        return ParsedCall(".cast", (self.expression(node["expr"]), self.type(node["dtype"])), options)

    def ternary(self, node: dict[str, Any]) -> Any:
        when = ParsedCall("polars.when", (self.expression(node["predicate"]),))
        then = ParsedCall(".then", (when, self.expression(node["truthy"])))
        return ParsedCall(".otherwise", (then, self.expression(node["falsy"])))

    def aggregate(self, node: Any) -> Any:
        kind, inside = opened(node)
        if kind in ("Std", "Var"):
            return ParsedCall(f".{kind.lower()}", (self.expression(inside[0]),), {"ddof": inside[1]})
        if kind == "Quantile":  # in versions before 2
            inputs = self._all([inside["expr"], inside["quantile"]])
            return ParsedCall(".quantile", inputs, {"interpolation": snake(inside["method"])})
        options = {}
        if isinstance(inside, dict) and "input" in inside:
            options = {name: option for name, option in inside.items() if name != "input"}
            inside = inside["input"]
        name = snake(kind)
        if kind == "Count" and options.pop("include_nulls"):
            name = "len"
        if kind in ("Min", "Max") and options.pop("propagate_nans"):
            name = f"nan_{name}"
        return ParsedCall(f".{name}", (self.expression(inside),), options)

    def sort(self, node: dict[str, Any]) -> Any:
        options = node["options"]
        return ParsedCall(
            ".sort",
            (self.expression(node["expr"]),),
            {"descending": options["descending"], "nulls_last": options["nulls_last"]},
        )

    def sort_by(self, node: dict[str, Any]) -> Any:
        options = node["sort_options"]
        return ParsedCall(
            ".sort_by",
            (self.expression(node["expr"]), *self._all(node["by"])),
            {name: options[name] for name in ("descending", "nulls_last", "multithreaded", "maintain_order")},
        )

    def filter(self, node: dict[str, Any]) -> Any:
        return ParsedCall(".filter", (self.expression(node["input"]), self.expression(node["by"])))

    def gather(self, node: dict[str, Any]) -> Any:
        name = ".get" if node["returns_scalar"] else ".gather"
        options = {"null_on_oob": True} if node.get("null_on_oob") else {}
        return ParsedCall(name, (self.expression(node["expr"]), self.expression(node["idx"])), options)

    def slice(self, node: dict[str, Any]) -> Any:
        return ParsedCall(".slice", self._all([node["input"], node["offset"], node["length"]]))

    def explode(self, node: dict[str, Any]) -> Any:
        return ParsedCall(".explode", (self.expression(node["input"]),), node.get("options", {}))

    def over(self, node: dict[str, Any]) -> Any:
        mapping = {"GroupsToRows": "group_to_rows"}.get(node["mapping"], node["mapping"].lower())
        options: dict[str, Any] = {"mapping_strategy": mapping}
        if node["order_by"] is not None:
            order, how = node["order_by"]
            options |= {"order_by": self.expression(order)}
            options |= {name: how[name] for name in ("descending", "nulls_last")}
        return ParsedCall(".over", self._all([node["function"], *node["partition_by"]]), options)

    def window(self, node: dict[str, Any]) -> Any:
        """Parse `over` and `rolling` as older versions of Polars, such as 1.33, serialise them."""
        kind, inside = opened(node["options"])
        if kind == "Over":
            return self.over({**node, "mapping": inside})
        return self.rolling({**node, **inside, "index_column": node["partition_by"][0]})

    def rolling(self, node: dict[str, Any]) -> Any:
        index = node["index_column"]
        return ParsedCall(
            ".rolling",
            (self.expression(node["function"]),),
            {
                "index_column": index["Column"] if "Column" in index else self.expression(index),
                "period": span(node["period"]),
                "offset": span(node["offset"]),
                "closed": node["closed_window"].lower(),
            },
        )

    def each_list(self, node: dict[str, Any]) -> Any:
        """Parse an operation within each list of a column."""
        lists = ParsedCall("@list", (self.expression(node["expr"]),))
        kind, inside = opened(node["evaluation"])
        if node["variant"] == "ListAgg":
            return ParsedCall(".agg", (lists, self.expression(node["evaluation"])))
        if node["variant"] == "List" and kind == "Filter" and inside["input"] == {"Column": ""}:
            return ParsedCall(".filter", (lists, self.expression(inside["by"])))
        if node["variant"] == "List" and kind == "Function" and inside["input"] == ["Element"]:
            kind, options = opened(inside["function"])
            if kind == "Reverse":
                return ParsedCall(".reverse", (lists,))
            if kind == "Unique":
                return ParsedCall(".unique", (lists,), {"maintain_order": options})
        raise OperationRefused("list.eval is in no list; use list.agg, list.filter, or explode and group_by")

    def with_fields(self, node: dict[str, Any]) -> Any:
        if node["variant"] != "WithFields":
            raise unknown(f"what is done with fields, {node['variant']},")
        structs = ParsedCall("@struct", (self.expression(node["expr"]),))
        return ParsedCall(".with_fields", (structs, *self._all(node["evaluation"])))

    def field(self, node: Any) -> Any:
        return ParsedCall("polars.field", (node,))

    def length(self, node: Any) -> Any:
        return ParsedCall("polars.len")

    def element(self, node: Any) -> Any:
        return ParsedCall("polars.element")


_Read = Callable[[Reader, Any], Any]
_KINDS: Mapping[str, _Read] = {
    "Agg": Reader.aggregate,
    "Alias": Reader.alias,
    "BinaryExpr": Reader.operator,
    "Cast": Reader.cast,
    "Column": Reader.column,
    "Element": Reader.element,
    "Eval": Reader.each_list,
    "Explode": Reader.explode,
    "Field": Reader.field,
    "Filter": Reader.filter,
    "Function": Reader.function,
    "Gather": Reader.gather,
    "KeepName": Reader.keep_name,
    "Len": Reader.length,
    "Literal": Reader.literal,
    "Over": Reader.over,
    "RenameAlias": Reader.renamed,
    "Rolling": Reader.rolling,
    "Selector": Reader.selector,
    "Slice": Reader.slice,
    "Sort": Reader.sort,
    "SortBy": Reader.sort_by,
    "StructEval": Reader.with_fields,
    "Ternary": Reader.ternary,
    "Window": Reader.window,
}
