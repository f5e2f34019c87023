"""Finds the rule of sizes of an operation: by `lists/sizes.toml`, else by the operation's effect."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from duetlink.compute.operations.allow_lists.allowed import AGGREGATE, ELEMENTWISE, Allowed, read_list
from duetlink.compute.operations.sizes import arrays, frames, keys
from duetlink.compute.operations.sizes.call import MockCall, Rule
from duetlink.compute.operations.sizes.mask import (
    EVERY,
    LABELS,
    NAMES,
    NESTED,
    PUBLIC,
    UNCOUNTED,
    has_pointers,
    is_pointer,
    trimmed,
)
from duetlink.errors import OperationRefused

_RULES: Mapping[str, Rule] = {
    "unknown": arrays.unknown,
    "uncounted": arrays.uncounted,
    "counted": arrays.counted,
    "fixed": arrays.fixed,
    "shaped": arrays.shaped,
    "same": arrays.same,
    "alike": frames.alike,
    "rows": arrays.rows,
    "reduced": frames.reduced,
    "turned": frames.turned,
    "squeezed": arrays.squeezed,
    "binned": arrays.binned,
    "one_hot": arrays.one_hot,
    "repeated": arrays.repeated,
    "chosen": arrays.chosen,
    "rowwise": frames.rowwise,
    "expanded": frames.expanded,
    "relabelled": frames.relabelled,
    "labelled": frames.labelled,
    "numbered": frames.numbered,
    "transposed": frames.transposed,
    "first_rows": frames.first_rows,
    "fewer": frames.fewer,
    "selected": frames.selected,
    "dropped": frames.dropped,
    "filtered": frames.filtered,
    "by_columns": frames.by_columns,
    "joined": frames.joined,
    "built": frames.built,
    "grouped": frames.grouped,
    "kept_groups": frames.kept_groups,
    "group_rows": frames.group_rows,
    "member_rows": frames.member_rows,
    "carried": frames.carried,
    "predicted": frames.predicted,
    "scaled": frames.scaled,
    "taken": keys.taken,
}
# rules whose result is PUBLIC if all arguments are PUBLIC and none is a number
_PUBLIC_OF_PUBLIC = frozenset({arrays.fixed, arrays.same, arrays.alike, arrays.rows, arrays.reduced})
_UNLABELLED: Mapping[Rule, Rule] = {frames.alike: arrays.alike, frames.reduced: arrays.reduced}
_OF_ARRAYS = frozenset(
    rule for rule in _RULES.values() if rule.__module__ == arrays.__name__ and rule is not arrays.turned
)
_TEXTS = frozenset({str, bytes})
_CONTAINERS = frozenset({list, tuple, dict, slice})
# Libraries of arrays, columns and numbers: an effect implies a rule, see `_rule_by_effect`.
_BY_EFFECT = frozenset({"numpy", "torch", "pandas", "polars", "operator", "builtins", "math"})
_FUNCTIONS_OF = {"numpy.ndarray": "numpy", "numpy.generic": "numpy", "torch.Tensor": "torch"}


def hidden_after(
    operation: str,
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    mocks: Sequence[Any],
    made: Any,
    allowed: Allowed,
) -> int:
    """Return the mask of the result `made` of an operation on mocks.

    The first argument of a method is its object. `mocks` are the mocks of the arguments passed by position.
    """
    kind: type = type(mocks[0]) if mocks else type(None)
    rule = _rules.get((operation, kind)) or _rule_of(operation, kind, allowed)
    is_quick = rule in _PUBLIC_OF_PUBLIC and not isinstance(made, (str, bytes))
    if is_quick and _is_public(arguments) and _is_public(keywords.values()):
        return PUBLIC
    call = MockCall(operation, arguments, keywords, mocks, made)
    hidden = rule(call)
    if isinstance(made, (str, bytes)):
        hidden = EVERY  # whatever object it was taken from
    elif rule is keys.taken and _is_cell(mocks[0], made):
        hidden = UNCOUNTED
    elif rule is keys.taken and type(made) in _CONTAINERS and _is_of_data(arguments[0], mocks[0]):
        hidden = UNCOUNTED  # a list in a cell
    elif type(made) is list and mocks and type(mocks[0]) in _TEXTS:
        hidden = UNCOUNTED  # how many words a text has
    elif hidden >= 0 and type(made) in _CONTAINERS and _is_nested(made) and not _is_array(mocks[0]):
        hidden |= NESTED
    elif hidden >= 0 and rule in _OF_ARRAYS and type(made).__module__.startswith("pandas"):
        hidden |= LABELS | (call.all & NAMES)
    if hidden == PUBLIC:
        return hidden
    if not any(map(has_pointers, arguments)) and not any(map(has_pointers, keywords.values())):
        return PUBLIC  # made of constants only: the mock is the result itself
    return trimmed(hidden, made)


def _is_of_data(argument: Any, mock: Any) -> bool:
    """Return True if the lengths of lists in an object may depend on the data."""
    return type(mock) not in _CONTAINERS or bool(getattr(argument, "_hidden", PUBLIC) & NESTED)


def _is_cell(target: Any, made: Any) -> bool:
    """Return True if an array or a column is one item of an object array, or of a nested column."""
    kind = type(made)
    if kind.__module__.startswith("polars") and hasattr(target, "dtype") and hasattr(made, "dtype"):
        return bool(target.dtype.is_nested() and getattr(target.dtype, "inner", None) == made.dtype)
    # a frame or series of pandas, or an accessor of one
    if hasattr(target, "iloc") or hasattr(target, "obj"):
        is_table = hasattr(made, "iloc") or hasattr(made, "nlevels")
        return hasattr(made, "__len__") and bool(getattr(made, "shape", ())) and not is_table
    if kind.__name__ != "ndarray":
        return False
    return bool(getattr(target, "dtype", made.dtype).kind == "O" != made.dtype.kind)


def _is_nested(made: Any) -> bool:
    parts = made.values() if type(made) is dict else made if type(made) is not slice else ()
    return any(type(part) in _CONTAINERS for part in parts)


def _is_array(mock: Any) -> bool:
    """Return True if all lists made of the mock have the lengths of its axes."""
    return hasattr(mock, "ndim") and not type(mock).__module__.startswith(("pandas", "polars"))


def _is_public(arguments: Iterable[Any]) -> bool:
    """Check cheaply that no argument hides a size. True is certain, False is not."""
    for argument in arguments:
        kind = type(argument)
        if hasattr(kind, "_is_remote"):
            if argument._hidden or not getattr(argument._mock, "ndim", 0):  # a number may set a length
                return False
        elif kind in _CONTAINERS:
            return False
    return True


def hidden_then(
    operation: str, arguments: Sequence[Any], keywords: Mapping[str, Any], mocks: Sequence[Any]
) -> None:
    """Update the mask of the first argument, which an operation is about to change in place."""
    changed: Any = arguments[0] if arguments else None
    if not is_pointer(changed) or operation not in _RESIZING:
        return
    table = getattr(changed, "_table", None)
    if table is not None:  # the target is `table.loc`
        table._hidden = keys.rows_after(mocks[0], table._hidden, arguments[1])
    elif (
        hidden := keys.after_writing(MockCall(operation, arguments, keywords, mocks, None))
    ) != changed._hidden:
        changed._hidden = hidden


# operations in place that may change lengths or labels
_RESIZING = frozenset(
    {"operator.setitem", "@=data", "@=columns", "@=index", ".squeeze_", "torch.squeeze_"}
    | keys.TURNING
    | keys.NAMING
)
_rules: dict[tuple[str, type], Rule] = {}


def _rule_of(operation: str, kind: type, allowed: Allowed) -> Rule:
    rule = _RULES[_listed_rule(operation, kind) or _rule_by_effect(operation, kind, allowed)]
    if not _may_be_labelled(kind):
        rule = _UNLABELLED.get(rule, rule)
    _rules[operation, kind] = rule
    return rule


def _may_be_labelled(kind: type) -> bool:
    return "torch" not in {base.__module__.partition(".")[0] for base in kind.__mro__}


def _listed_rule(operation: str, kind: type) -> str | None:
    """Return the name of the rule in the list; None if the operation is not listed."""
    listed = _listed()
    if operation[0] not in ".@":
        return listed.get(operation)
    name = operation.removeprefix(".")
    for base in kind.__mro__:
        of = f"{base.__module__.partition('.')[0]}.{base.__name__}"
        found = listed.get(f"{of}:{name}") or listed.get(f"{of}:*")
        if found is None and of in _FUNCTIONS_OF and operation[0] == ".":
            found = listed.get(f"{_FUNCTIONS_OF[of]}.{name}")
        if found is not None:
            return found
    return None


def _rule_by_effect(operation: str, kind: type, allowed: Allowed) -> str:
    try:
        if operation[0] == ".":
            modules = [base.__module__.partition(".")[0] for base in kind.__mro__]
            library = next((module for module in modules if module in _BY_EFFECT), "")
            effect = allowed.method(kind, operation[1:])
        elif operation[0] == "@":
            return "unknown"
        else:
            library = operation.partition(".")[0]
            effect = allowed.function(operation).effect
            if operation.startswith("scipy.special."):
                library = "numpy"
    except OperationRefused:
        return "unknown"
    if library in _BY_EFFECT:
        return {ELEMENTWISE: "alike", AGGREGATE: "reduced"}.get(effect or "", "unknown")
    return "unknown"


@functools.cache
def _listed() -> Mapping[str, str]:
    """Return the rule's name for each function, and for each `CLASS:MEMBER`."""
    found: dict[str, str] = {}
    listed = read_list("sizes")
    for library, rules in listed["functions"].items():
        for rule, names in rules.items():
            found.update({f"{library}.{name}": rule for name in names})
    for class_, rules in listed["classes"].items():
        for rule, names in rules.items():
            found.update({f"{class_}:{name}": rule for name in names})
    return found
