"""Parses the nodes `Function` of a Polars expression.

Most functions follow the table in polars_table.py. The methods of `Functions` parse those that a line of the
table cannot describe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from duetlink.duet.asking.grammar.call import ParsedCall
from duetlink.duet.asking.grammar.polars_node import OWN, WRITES_FUNCTIONS, opened, snake, span, unknown
from duetlink.duet.asking.grammar.polars_table import GROUPS, LINES, SPACES
from duetlink.duet.asking.grammar.polars_types import UNITS, zone_of
from duetlink.duet.asking.grammar.polars_values import Values
from duetlink.errors import OperationRefused


class Functions(Values):
    """Parses the nodes of functions."""

    def expression(self, node: Any) -> Any:
        """Parse a node into a tree. Raises OperationRefused."""
        raise NotImplementedError

    def _all(self, nodes: list[Any]) -> tuple[Any, ...]:
        return tuple(map(self.expression, nodes))

    def function(self, node: dict[str, Any]) -> Any:
        kind, options = opened(node["function"])
        if kind in GROUPS and options is not None:
            group = kind
            kind, options = opened(options)
            key, path = f"{group}.{kind}", SPACES.get(group, "") + snake(kind)
        else:
            key, path = kind, snake(kind)
        if kind in WRITES_FUNCTIONS:
            raise OperationRefused(OWN)
        inputs = self._all(node["input"])
        special = _FUNCTIONS.get(key)
        if special is not None:
            return special(self, inputs, options)
        line = LINES.get(key)
        if line is None:
            words = [] if not isinstance(options, dict) else list(options)
            if options is not None and not isinstance(options, dict):
                raise unknown(f"the function {key!r}")
        else:
            path, *words = line
        named, taken = self._keywords(words, inputs, options)
        rest = [part for index, part in enumerate(inputs) if index not in taken]
        return _method(path, rest, named)

    def _keywords(
        self, words: list[str], inputs: tuple[Any, ...], options: Any
    ) -> tuple[dict[str, Any], set[int]]:
        named: dict[str, Any] = {}
        taken = set()
        for word in words:
            name, _, field = word.partition("=")
            field = field or name
            if field[0] == "#":
                index = int(field[1:].rstrip("?"))
                if index < len(inputs) or field[-1] != "?":
                    named[name] = inputs[index]
                    taken.add(index)
                continue
            mark = field[-1] if field[-1] in "!~^%@" else ""
            value = options
            for step in field.rstrip("!~^%@").split("."):
                if step:
                    value = value[int(step)] if step.isdigit() else value[step]
            named[name] = self._marked(mark, value)
        return named, taken

    def _marked(self, mark: str, value: Any) -> Any:
        if value is None or not mark:
            return value
        if mark == "!":
            return snake(value)
        if mark == "~":
            return span(value)
        if mark == "^":
            return UNITS[value]
        return zone_of(value) if mark == "@" else self.type(value)

    def clip(self, inputs: tuple[Any, ...], options: dict[str, bool]) -> Any:
        bounds = list(inputs[1:])
        named = {
            name: bounds.pop(0)
            for name, has in (("lower_bound", "has_min"), ("upper_bound", "has_max"))
            if options[has]
        }
        return ParsedCall(".clip", inputs[:1], named)

    def correlation(self, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        kind, inside = opened(options["method"])
        if kind == "Covariance":
            return ParsedCall("polars.cov", inputs, {"ddof": inside})
        if kind == "SpearmanRank":
            return ParsedCall("polars.corr", inputs, {"method": "spearman", "propagate_nans": inside})
        return ParsedCall("polars.corr", inputs, {"method": kind.lower()})

    def fill_null(self, inputs: tuple[Any, ...], options: Any) -> Any:
        kind, limit = opened(options)
        return ParsedCall(".fill_null", inputs, {"strategy": kind.lower(), "limit": limit})

    def format(self, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        text, end = "", 0
        pieces = options["format"].encode()
        for position in options["insertions"]:
            text += pieces[end:position].decode() + "{}"
            end = position
        return ParsedCall("polars.format", (text + pieces[end:].decode(), *inputs))

    def negate(self, inputs: tuple[Any, ...], options: Any) -> Any:
        return ParsedCall("operator.neg", inputs)

    def random(self, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        kind, inside = opened(options["method"])
        if kind == "Shuffle":
            return ParsedCall(".shuffle", inputs, {"seed": options["seed"]})
        return ParsedCall(
            ".sample",
            inputs[:1],
            {
                "fraction" if inside["is_fraction"] else "n": inputs[1],
                "with_replacement": inside["with_replacement"],
                "shuffle": inside["shuffle"],
                "seed": options["seed"],
            },
        )

    def replace_text(self, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        strings = ParsedCall("@str", inputs[:1])
        if options["n"] == -1:
            return ParsedCall(".replace_all", (strings, *inputs[1:]), {"literal": options["literal"]})
        return ParsedCall(
            ".replace", (strings, *inputs[1:]), {"n": options["n"], "literal": options["literal"]}
        )

    def set_operation(self, inputs: tuple[Any, ...], options: Any) -> Any:
        kind, _ = opened(options)
        return ParsedCall(f".set_{snake(kind)}", (ParsedCall("@list", inputs[:1]), *inputs[1:]))

    def rolled(self, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        kind, inside = opened(options["function"])
        how = options["options"]
        if kind == "Map":
            raise OperationRefused(OWN)
        if kind == "CorrCov":
            named = {
                "window_size": inside["corr_cov_options"]["window_size"],
                "min_samples": inside["corr_cov_options"]["min_periods"],
            }
            if inside["is_corr"]:
                return ParsedCall("polars.rolling_corr", inputs, named)
            return ParsedCall(
                "polars.rolling_cov", inputs, named | {"ddof": inside["corr_cov_options"]["ddof"]}
            )
        named = _of_window(how["fn_params"]) | {
            "window_size": how["window_size"],
            "min_samples": how["min_periods"],
            "center": how["center"],
        }
        if how["weights"] is not None:
            named["weights"] = how["weights"]
        return ParsedCall(f".rolling_{snake(kind)}", inputs, named)

    def rolled_by(self, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        how = options["options"]
        named = _of_window(how["fn_params"]) | {
            "window_size": span(how["window_size"]),
            "min_samples": how["min_periods"],
            "closed": how["closed_window"].lower(),
        }
        return ParsedCall(f".rolling_{snake(options['function_by'])}", inputs, named)

    def top(self, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return ParsedCall(".bottom_k" if options["descending"] else ".top_k", inputs)

    def top_by(self, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        column, k, *by = inputs
        return ParsedCall(".top_k_by", (column, by, k), {"reverse": options["descending"]})

    def select_fields(self, inputs: tuple[Any, ...], options: Any) -> Any:
        structs = ParsedCall("@struct", inputs[:1])
        kind, (first, second) = opened(options)
        if kind == "Union" and first == "Empty":
            return ParsedCall(".field", (structs, *opened(second)[1]["names"]))
        if kind == "Union" and first == {"Union": ["Empty", "Wildcard"]}:
            return ParsedCall(".unnest", (structs,))
        raise unknown("the choice of fields")

    def strptime(self, inputs: tuple[Any, ...], options: list[Any]) -> Any:
        how = {name: options[1][name] for name in ("strict", "exact", "cache")}
        strings = ParsedCall("@str", inputs[:1])
        named = how | {"ambiguous": inputs[1]}
        return ParsedCall(".strptime", (strings, self.type(options[0]), options[1]["format"]), named)


_FUNCTIONS: Mapping[str, Callable[[Functions, tuple[Any, ...], Any], Any]] = {
    "Clip": Functions.clip,
    "Correlation": Functions.correlation,
    "FillNullWithStrategy": Functions.fill_null,
    "ListExpr.SetOperation": Functions.set_operation,
    "Negate": Functions.negate,
    "Random": Functions.random,
    "RollingExpr": Functions.rolled,
    "RollingExprBy": Functions.rolled_by,
    "StringExpr.Format": Functions.format,
    "StringExpr.Replace": Functions.replace_text,
    "StringExpr.Strptime": Functions.strptime,
    "StructExpr.SelectFields": Functions.select_fields,
    "TopK": Functions.top,
    "TopKBy": Functions.top_by,
}


def _method(path: str, inputs: list[Any], named: dict[str, Any]) -> ParsedCall:
    if path.startswith("polars."):
        return ParsedCall(path, tuple(inputs), named)
    space, _, name = path.rpartition(".")
    first = ParsedCall(f"@{space}", (inputs[0],)) if space else inputs[0]
    return ParsedCall(f".{name}", (first, *inputs[1:]), named)


def _of_window(written: Any) -> dict[str, Any]:
    """Return the keywords of a rolling function other than those of its window."""
    if written is None:
        return {}
    kind, inside = opened(written)
    if kind == "Quantile":
        return {"quantile": inside["prob"], "interpolation": inside["method"].lower()}
    return dict(inside)
