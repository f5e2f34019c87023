"""A Polars expression of the scientist's, made again out of operations of the lists.

Theory. Polars can write an expression as JSON, which says all that is in it. That JSON may not cross: it
could carry a pickled function, and to read it is as much as to run it. So it is written by the scientist's
side and read there, by this parser, into a tree of calls; only these become steps. The names of nodes and
options change between versions of Polars. So nothing of what is read is trusted: the tree is done here first,
and the expression that comes of it must be, byte by byte, the one that was given. Otherwise it is refused.
"""

from __future__ import annotations

import datetime
import decimal
import io
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from duetlink.compute.operations.allowed import Allowed
from duetlink.duet.asking.grammar.call import Call, done_here
from duetlink.duet.asking.grammar.polars_nodes import GROUPS, LINES, OPERATORS, SPACES
from duetlink.duet.asking.grammar.polars_types import UNITS, type_of, zone_of
from duetlink.errors import OperationRefused

MAX_TEXT = 16 * 1024 * 1024  # characters of JSON; an item of a list takes some twenty
MAX_DEPTH = 400  # of nodes in nodes; one operation takes two to four
MAX_NODES = 50_000
_BY_HAND = "make it by pl = duet.remote(polars)"
_OWN = (
    "an expression cannot hold a Python function; have the owner review yours as a whole: @duet.remote; "
    "NumPy's are methods, pl.col('a').sin(); "
    f"where Polars has put it there, as in cum_sum_horizontal, {_BY_HAND}"
)
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_EPOCH = datetime.date(1970, 1, 1)
_WRITES_FUNCTIONS = frozenset(
    {"AnonymousFunction", "AnonymousAgg", "FoldHorizontal", "ReduceHorizontal", "CumFoldHorizontal"}
    | {"CumReduceHorizontal", "Map", "FfiPlugin", "DataTypeFunction"}
)
_ALIKE = ("Union", "Difference", "Intersect", "ExclusiveOr")
_JOINED = dict(zip(_ALIKE, ("operator.or_", "operator.sub", "operator.and_", "operator.xor"), strict=True))
_BY_KIND = ("Numeric", "Integer", "SignedInteger", "UnsignedInteger", "Float", "Temporal", "Categorical")


def parsed(expression: Any, allowed: Allowed) -> Any:
    """The tree of an expression, of which `done_here` makes its equal.

    Raises:
        OperationRefused: it has a function, is too large, or something in it is in no list; the message says
            what, and what to do instead.
    """
    try:
        text = expression.meta.serialize(format="json")
        wanted = expression.meta.serialize(format="binary")
    except Exception as error:  # of the library: it holds something that cannot be written
        raise OperationRefused(
            f"the expression cannot be read here ({type(error).__name__}); {_BY_HAND}"
        ) from error
    if len(text) > MAX_TEXT:
        raise OperationRefused(
            f"an expression of {len(text):,} characters is over {MAX_TEXT:,}: place its lists by duet.remote"
        )
    try:
        written = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OperationRefused(
            f"the expression cannot be read here ({type(error).__name__}); {_BY_HAND}"
        ) from None
    _check_size(written)
    refusal = "it comes out as another one"
    # JSON has no infinity and no NaN; which it was, only the comparison tells
    for not_finite in (float("nan"), float("inf"), float("-inf")) if "null" in text else (0.0,):
        reader = _Reader(not_finite)
        tree = reader.selection(written) if _is_selector(expression) else reader.expression(written)
        try:
            made = done_here(tree, allowed)
        except OperationRefused:
            raise
        except Exception as error:  # of the library: called in another way than it expects
            refusal = f"{type(error).__name__}: {str(error)[:200]}"
            continue
        if made.meta.serialize(format="binary") == wanted:
            return tree
    raise OperationRefused(
        f"this expression is not known here ({refusal}); {_BY_HAND}: {str(expression)[:200]}"
    )


def parsed_type(dtype: Any, allowed: Allowed) -> Any:
    """The tree of a type of columns, such as `polars.List(polars.Int8)`. Raises OperationRefused."""
    import polars

    written = json.loads(polars.lit(None).cast(dtype).meta.serialize(format="json"))
    tree = _Reader(0.0).type(written["Cast"]["dtype"])
    if done_here(tree, allowed) != dtype:
        raise OperationRefused(f"the column type {dtype} comes out as another one; {_BY_HAND}")
    return tree


def _is_selector(expression: Any) -> bool:
    return type(expression).__name__ == "Selector"


def _check_size(written: Any) -> None:
    """Raise OperationRefused where it is too deep or too large to be walked."""
    level, depth, nodes = [written], 0, 0
    while level:
        nodes += len(level)
        depth += 1
        if depth > MAX_DEPTH or nodes > MAX_NODES:
            raise OperationRefused(
                f"an expression of more than {MAX_NODES:,} parts, or {MAX_DEPTH} within each other, is too "
                "large: make it in several steps, with with_columns"
            )
        below: list[Any] = []
        for part in level:
            if isinstance(part, dict):
                below += part.values()
            elif isinstance(part, list) and not (
                part and isinstance(part[0], int)
            ):  # not the bytes of a list
                below += part
        level = below


def _unknown(what: str) -> OperationRefused:
    return OperationRefused(f"{what} of a Polars expression is not known here; {_BY_HAND}")


def _snake(name: str) -> str:
    return _WORD.sub("_", name).lower()


class _Reader:
    """Reads nodes into trees. A node is a text, or a dict with one key: its kind."""

    def __init__(self, not_finite: float) -> None:
        self._not_finite = not_finite

    def expression(self, node: Any) -> Any:
        """The tree of a node. Raises OperationRefused."""
        kind, inside = _taken(node)
        if kind in _WRITES_FUNCTIONS:
            raise OperationRefused(_OWN)
        read = _KINDS.get(kind)
        if read is None:
            raise _unknown(f"the part {kind!r}")
        try:
            return read(self, inside)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise _unknown(f"the part {kind!r} ({type(error).__name__})") from None

    def _all(self, nodes: list[Any]) -> tuple[Any, ...]:
        return tuple(map(self.expression, nodes))

    # -- columns and values ----------------------------------------------------------------------------------

    def column(self, name: str) -> Any:
        return Call("polars.col", (name,))

    def selector(self, node: Any) -> Any:
        """As columns, which take operators as columns do."""
        kind, inside = _taken(node)
        if kind == "ByName" and inside["strict"]:
            return Call("polars.col", (inside["names"],))
        if kind == "Matches" and inside[0] == "^" and inside[-1] == "$":
            return Call("polars.col", (inside,))
        return Call(".as_expr", (self._selected(node),))

    def selection(self, node: Any) -> Any:
        """The tree of a selector, which stays one. Raises OperationRefused."""
        kind, inside = _taken(node)
        if kind != "Selector":
            raise _unknown(f"the selector {kind!r}")
        try:
            return self._selected(inside)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise _unknown(f"a selector ({type(error).__name__})") from None

    def _selected(self, node: Any) -> Any:
        """As a selector, of which others can be made."""
        kind, inside = _taken(node)
        if kind == "Wildcard":
            return Call("polars.selectors.all")
        if kind == "ByName":
            return Call("polars.selectors.by_name", tuple(inside["names"]), {"require_all": inside["strict"]})
        if kind == "ByIndex":
            return Call("polars.selectors.by_index", (inside["indices"],), {"require_all": inside["strict"]})
        if kind == "Matches":
            return Call("polars.selectors.matches", (inside,))
        if kind in _JOINED:
            return Call(_JOINED[kind], tuple(map(self._selected, inside)))
        if kind == "ByDType":
            kind, inside = _taken(inside)
            if kind == "AnyOf":
                return Call("polars.selectors.by_dtype", ([self.type(part) for part in inside],))
            if kind in ("Datetime", "Duration") or kind in _BY_KIND:
                return Call(f"polars.selectors.{_snake(kind)}")
        raise _unknown(f"the selector {kind!r}")

    def literal(self, node: Any) -> Any:
        kind, inside = _taken(node)
        if kind == "Dyn":
            kind, inside = _taken(inside)
            if kind in ("Int", "Float"):
                return self._lit(self._number(inside))
        if kind == "Series":
            return self._lit(_series(inside))
        if kind == "Scalar":
            return self._scalar(*_taken(inside))
        raise _unknown(f"the value {kind!r}")

    def _lit(self, value: Any, dtype: Any = None) -> Any:
        return Call("polars.lit", (value,), {} if dtype is None else {"dtype": dtype})

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
            return self._lit(_series(inside).to_list())
        if kind in ("Float32", "Float64") or re.fullmatch(r"U?Int(8|16|32|64|128)", kind):
            return self._lit(self._number(inside), getattr(polars, kind))
        raise _unknown(f"the value {kind!r}")

    # -- what is done with them ------------------------------------------------------------------------------

    def operator(self, node: dict[str, Any]) -> Any:
        operation = OPERATORS.get(node["op"])
        if operation is None:
            raise _unknown(f"the operator {node['op']!r}")
        return Call(operation, (self.expression(node["left"]), self.expression(node["right"])))

    def alias(self, node: list[Any]) -> Any:
        return Call(".alias", (self.expression(node[0]), node[1]))

    def keep_name(self, node: Any) -> Any:
        return Call(".keep", (Call("@name", (self.expression(node),)),))

    def renamed(self, node: dict[str, Any]) -> Any:
        kind, inside = _taken(node["function"])
        names = Call("@name", (self.expression(node["expr"]),))
        if kind in ("Prefix", "Suffix"):
            return Call(f".{kind.lower()}", (names, inside))
        if kind in ("ToUppercase", "ToLowercase"):
            return Call(f".{_snake(kind)}", (names,))
        if kind == "Replace":
            return Call(
                ".replace", (names, inside["pattern"], inside["value"]), {"literal": inside["literal"]}
            )
        raise OperationRefused(_OWN) if kind == "Map" else _unknown(f"the renaming {kind!r}")

    def cast(self, node: dict[str, Any]) -> Any:
        options = {
            "Strict": {},
            "NonStrict": {"strict": False},
            "Overflowing": {"wrap_numerical": True},
        }[node["options"]]
        return Call(".cast", (self.expression(node["expr"]), self.type(node["dtype"])), options)

    def ternary(self, node: dict[str, Any]) -> Any:
        when = Call("polars.when", (self.expression(node["predicate"]),))
        then = Call(".then", (when, self.expression(node["truthy"])))
        return Call(".otherwise", (then, self.expression(node["falsy"])))

    def aggregate(self, node: Any) -> Any:
        kind, inside = _taken(node)
        if kind in ("Std", "Var"):
            return Call(f".{kind.lower()}", (self.expression(inside[0]),), {"ddof": inside[1]})
        options = {}
        if isinstance(inside, dict) and "input" in inside:
            options = {name: option for name, option in inside.items() if name != "input"}
            inside = inside["input"]
        name = _snake(kind)
        if kind == "Count" and options.pop("include_nulls"):
            name = "len"
        if kind in ("Min", "Max") and options.pop("propagate_nans"):
            name = f"nan_{name}"
        return Call(f".{name}", (self.expression(inside),), options)

    def sort(self, node: dict[str, Any]) -> Any:
        options = node["options"]
        return Call(
            ".sort",
            (self.expression(node["expr"]),),
            {"descending": options["descending"], "nulls_last": options["nulls_last"]},
        )

    def sort_by(self, node: dict[str, Any]) -> Any:
        options = node["sort_options"]
        return Call(
            ".sort_by",
            (self.expression(node["expr"]), *self._all(node["by"])),
            {name: options[name] for name in ("descending", "nulls_last", "multithreaded", "maintain_order")},
        )

    def filter(self, node: dict[str, Any]) -> Any:
        return Call(".filter", (self.expression(node["input"]), self.expression(node["by"])))

    def gather(self, node: dict[str, Any]) -> Any:
        name = ".get" if node["returns_scalar"] else ".gather"
        options = {"null_on_oob": True} if node["null_on_oob"] else {}
        return Call(name, (self.expression(node["expr"]), self.expression(node["idx"])), options)

    def slice(self, node: dict[str, Any]) -> Any:
        return Call(".slice", self._all([node["input"], node["offset"], node["length"]]))

    def explode(self, node: dict[str, Any]) -> Any:
        return Call(".explode", (self.expression(node["input"]),), node["options"])

    def over(self, node: dict[str, Any]) -> Any:
        mapping = {"GroupsToRows": "group_to_rows"}.get(node["mapping"], node["mapping"].lower())
        options: dict[str, Any] = {"mapping_strategy": mapping}
        if node["order_by"] is not None:
            order, how = node["order_by"]
            options |= {"order_by": self.expression(order)}
            options |= {name: how[name] for name in ("descending", "nulls_last")}
        return Call(".over", self._all([node["function"], *node["partition_by"]]), options)

    def rolling(self, node: dict[str, Any]) -> Any:
        return Call(
            ".rolling",
            (self.expression(node["function"]),),
            {
                "index_column": self.expression(node["index_column"]),
                "period": _span(node["period"]),
                "offset": _span(node["offset"]),
                "closed": node["closed_window"].lower(),
            },
        )

    def each_list(self, node: dict[str, Any]) -> Any:
        """What is done within each list."""
        lists = Call("@list", (self.expression(node["expr"]),))
        kind, inside = _taken(node["evaluation"])
        if node["variant"] == "ListAgg":
            return Call(".agg", (lists, self.expression(node["evaluation"])))
        if node["variant"] == "List" and kind == "Filter" and inside["input"] == {"Column": ""}:
            return Call(".filter", (lists, self.expression(inside["by"])))
        if node["variant"] == "List" and kind == "Function" and inside["input"] == ["Element"]:
            kind, options = _taken(inside["function"])
            if kind == "Reverse":
                return Call(".reverse", (lists,))
            if kind == "Unique":
                return Call(".unique", (lists,), {"maintain_order": options})
        raise OperationRefused("list.eval is in no list; use list.agg, list.filter, or explode and group_by")

    def with_fields(self, node: dict[str, Any]) -> Any:
        if node["variant"] != "WithFields":
            raise _unknown(f"what is done with fields, {node['variant']},")
        structs = Call("@struct", (self.expression(node["expr"]),))
        return Call(".with_fields", (structs, *self._all(node["evaluation"])))

    def field(self, node: Any) -> Any:
        return Call("polars.field", (node,))

    def length(self, node: Any) -> Any:
        return Call("polars.len")

    def element(self, node: Any) -> Any:
        return Call("polars.element")

    # -- functions -------------------------------------------------------------------------------------------

    def function(self, node: dict[str, Any]) -> Any:
        kind, options = _taken(node["function"])
        if kind in GROUPS and options is not None:
            group = kind
            kind, options = _taken(options)
            key, path = f"{group}.{kind}", SPACES.get(group, "") + _snake(kind)
        else:
            key, path = kind, _snake(kind)
        if kind in _WRITES_FUNCTIONS:
            raise OperationRefused(_OWN)
        inputs = self._all(node["input"])
        special = _FUNCTIONS.get(key)
        if special is not None:
            return special(self, inputs, options)
        line = LINES.get(key)
        if line is None:
            words = [] if not isinstance(options, dict) else list(options)
            if options is not None and not isinstance(options, dict):
                raise _unknown(f"the function {key!r}")
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
            return _snake(value)
        if mark == "~":
            return _span(value)
        if mark == "^":
            return UNITS[value]
        return zone_of(value) if mark == "@" else self.type(value)

    def type(self, written: Any) -> Any:
        return type_of(written, lambda strings: _series(strings).to_list())

    def clip(self, inputs: tuple[Any, ...], options: dict[str, bool]) -> Any:
        bounds = list(inputs[1:])
        named = {
            name: bounds.pop(0)
            for name, has in (("lower_bound", "has_min"), ("upper_bound", "has_max"))
            if options[has]
        }
        return Call(".clip", inputs[:1], named)

    def correlation(self, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        kind, inside = _taken(options["method"])
        if kind == "Covariance":
            return Call("polars.cov", inputs, {"ddof": inside})
        if kind == "SpearmanRank":
            return Call("polars.corr", inputs, {"method": "spearman", "propagate_nans": inside})
        return Call("polars.corr", inputs, {"method": kind.lower()})

    def fill_null(self, inputs: tuple[Any, ...], options: Any) -> Any:
        kind, limit = _taken(options)
        return Call(".fill_null", inputs, {"strategy": kind.lower(), "limit": limit})

    def format(self, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        text, end = "", 0
        pieces = options["format"].encode()
        for place in options["insertions"]:
            text += pieces[end:place].decode() + "{}"
            end = place
        return Call("polars.format", (text + pieces[end:].decode(), *inputs))

    def negate(self, inputs: tuple[Any, ...], options: Any) -> Any:
        return Call("operator.neg", inputs)

    def random(self, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        kind, inside = _taken(options["method"])
        if kind == "Shuffle":
            return Call(".shuffle", inputs, {"seed": options["seed"]})
        return Call(
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
        strings = Call("@str", inputs[:1])
        if options["n"] == -1:
            return Call(".replace_all", (strings, *inputs[1:]), {"literal": options["literal"]})
        return Call(".replace", (strings, *inputs[1:]), {"n": options["n"], "literal": options["literal"]})

    def set_operation(self, inputs: tuple[Any, ...], options: Any) -> Any:
        kind, _ = _taken(options)
        return Call(f".set_{_snake(kind)}", (Call("@list", inputs[:1]), *inputs[1:]))

    def rolled(self, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        kind, inside = _taken(options["function"])
        how = options["options"]
        if kind == "Map":
            raise OperationRefused(_OWN)
        if kind == "CorrCov":
            named = {
                "window_size": inside["corr_cov_options"]["window_size"],
                "min_samples": inside["corr_cov_options"]["min_periods"],
            }
            if inside["is_corr"]:
                return Call("polars.rolling_corr", inputs, named)
            return Call("polars.rolling_cov", inputs, named | {"ddof": inside["corr_cov_options"]["ddof"]})
        named = _of_window(how["fn_params"]) | {
            "window_size": how["window_size"],
            "min_samples": how["min_periods"],
            "center": how["center"],
        }
        if how["weights"] is not None:
            named["weights"] = how["weights"]
        return Call(f".rolling_{_snake(kind)}", inputs, named)

    def rolled_by(self, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        how = options["options"]
        named = _of_window(how["fn_params"]) | {
            "window_size": _span(how["window_size"]),
            "min_samples": how["min_periods"],
            "closed": how["closed_window"].lower(),
        }
        return Call(f".rolling_{_snake(options['function_by'])}", inputs, named)

    def top(self, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return Call(".bottom_k" if options["descending"] else ".top_k", inputs)

    def top_by(self, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        column, k, *by = inputs
        return Call(".top_k_by", (column, by, k), {"reverse": options["descending"]})

    def select_fields(self, inputs: tuple[Any, ...], options: Any) -> Any:
        structs = Call("@struct", inputs[:1])
        kind, (first, second) = _taken(options)
        if kind == "Union" and first == "Empty":
            return Call(".field", (structs, *_taken(second)[1]["names"]))
        if kind == "Union" and first == {"Union": ["Empty", "Wildcard"]}:
            return Call(".unnest", (structs,))
        raise _unknown("the choice of fields")

    def strptime(self, inputs: tuple[Any, ...], options: list[Any]) -> Any:
        how = {name: options[1][name] for name in ("strict", "exact", "cache")}
        strings = Call("@str", inputs[:1])
        named = how | {"ambiguous": inputs[1]}
        return Call(".strptime", (strings, self.type(options[0]), options[1]["format"]), named)


_Read = Callable[[_Reader, Any], Any]
_KINDS: Mapping[str, _Read] = {
    "Agg": _Reader.aggregate,
    "Alias": _Reader.alias,
    "BinaryExpr": _Reader.operator,
    "Cast": _Reader.cast,
    "Column": _Reader.column,
    "Element": _Reader.element,
    "Eval": _Reader.each_list,
    "Explode": _Reader.explode,
    "Field": _Reader.field,
    "Filter": _Reader.filter,
    "Function": _Reader.function,
    "Gather": _Reader.gather,
    "KeepName": _Reader.keep_name,
    "Len": _Reader.length,
    "Literal": _Reader.literal,
    "Over": _Reader.over,
    "RenameAlias": _Reader.renamed,
    "Rolling": _Reader.rolling,
    "Selector": _Reader.selector,
    "Slice": _Reader.slice,
    "Sort": _Reader.sort,
    "SortBy": _Reader.sort_by,
    "StructEval": _Reader.with_fields,
    "Ternary": _Reader.ternary,
}
_FUNCTIONS: Mapping[str, Callable[[_Reader, tuple[Any, ...], Any], Any]] = {
    "Clip": _Reader.clip,
    "Correlation": _Reader.correlation,
    "FillNullWithStrategy": _Reader.fill_null,
    "ListExpr.SetOperation": _Reader.set_operation,
    "Negate": _Reader.negate,
    "Random": _Reader.random,
    "RollingExpr": _Reader.rolled,
    "RollingExprBy": _Reader.rolled_by,
    "StringExpr.Format": _Reader.format,
    "StringExpr.Replace": _Reader.replace_text,
    "StringExpr.Strptime": _Reader.strptime,
    "StructExpr.SelectFields": _Reader.select_fields,
    "TopK": _Reader.top,
    "TopKBy": _Reader.top_by,
}


def _taken(node: Any) -> tuple[str, Any]:
    """The kind of a node, and what is inside; None where there is nothing."""
    if isinstance(node, str):
        return node, None
    if isinstance(node, dict) and len(node) == 1:
        ((kind, inside),) = node.items()
        return kind, inside
    raise _unknown(f"a part {str(node)[:60]!r}")


def _method(path: str, inputs: list[Any], named: dict[str, Any]) -> Call:
    if path.startswith("polars."):
        return Call(path, tuple(inputs), named)
    space, _, name = path.rpartition(".")
    first = Call(f"@{space}", (inputs[0],)) if space else inputs[0]
    return Call(f".{name}", (first, *inputs[1:]), named)


def _series(ipc: list[int]) -> Any:
    """What Polars writes of a list of values: a stream of Arrow, as bytes."""
    import polars

    try:
        return polars.read_ipc_stream(io.BytesIO(bytes(ipc))).to_series()
    except Exception as error:  # of the library
        raise ValueError(type(error).__name__) from error


def _span(written: dict[str, Any]) -> str:
    """A span of time as Polars reads it, such as `-1mo2d`."""
    rest, unit = written["nsecs"], "i" if written["parsed_int"] else "ns"
    if unit == "ns" and rest % 1000 == 0:  # a range that is given nanoseconds would be of nanoseconds
        rest, unit = rest // 1000, "us"
    parts = [(written["months"], "mo"), (written["weeks"], "w"), (written["days"], "d"), (rest, unit)]
    text = "".join(f"{count}{name}" for count, name in parts if count)
    return ("-" if written["negative"] else "") + (text or "0us")


def _of_window(written: Any) -> dict[str, Any]:
    """What the function of a window takes beside the window."""
    if written is None:
        return {}
    kind, inside = _taken(written)
    if kind == "Quantile":
        return {"quantile": inside["prob"], "interpolation": inside["method"].lower()}
    return dict(inside)
