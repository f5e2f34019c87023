"""The rules of `lists/guards.toml` for one operation: the arguments with which it is refused."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from duetlink.compute.operations.allow_lists.allowed import read_list
from duetlink.compute.operations.allow_lists.parameters import library_of, parameters

_NUMBERS = "biufc"  # numeric item types, as `dtype.kind` of NumPy and pandas
ITEM_TYPES = frozenset({"dtype", "dtypes"})  # names of parameters that are a dtype


@dataclass(frozen=True, slots=True)
class Rule:
    """The values that a parameter may have; None is always allowed."""

    harmless: tuple[Any, ...]
    never: tuple[str, ...]  # "empty", or "text" at any depth; if empty, only values of `harmless` are allowed
    why: str

    def refuses(self, value: Any) -> bool:
        if value is None:
            return False
        if self.never:
            empty = type(value) in (tuple, list) and not value
            return (empty and "empty" in self.never) or ("text" in self.never and _holds_text(value))
        if isinstance(value, str) or type(value).__module__ == "torch":  # torch.strided
            return str(value) not in [harmless for harmless in self.harmless if type(harmless) is str]
        return not any(type(value) is type(harmless) and value == harmless for harmless in self.harmless)


def _holds_text(value: Any) -> bool:
    """Return True if a value is a text, or a container or non-numeric array that may contain one."""
    if isinstance(value, (str, bytes)):
        return True
    if isinstance(value, Mapping):
        return any(map(_holds_text, (*value.keys(), *value.values())))
    if isinstance(value, (list, tuple, AbstractSet)):
        return any(map(_holds_text, value))
    types = getattr(value, "dtypes", None)  # one per column of a frame
    if not isinstance(types, Iterable):
        types = [value.dtype] if hasattr(value, "dtype") else []
    return any(getattr(kind, "kind", "O") not in _NUMBERS for kind in types)


@dataclass(frozen=True, slots=True)
class ArgumentRules:
    """The checks of one operation's arguments."""

    library: str
    names: Sequence[str]  # names of positional parameters
    named: frozenset[str]  # names of all parameters
    rules: Mapping[str, Rule]  # by parameter
    watched: tuple[int, ...]  # positions of parameters that have a rule
    needed: tuple[int, str] | None  # the least number of arguments, and the reason
    free: bool  # unknown keywords are column names


@functools.cache
def plan_of(operation: str, kind: type) -> ArgumentRules:
    """Return the rules for an operation of the lists whose first argument is a `kind`."""
    tables = read_list("guards")
    library = library_of(operation, kind)
    subjects = {operation, library}
    rules: dict[str, Rule] = {}
    for table in tables["refused"]:
        if subjects & set(table.get("for", subjects)) and operation not in table.get("except", ()):
            rule = Rule(tuple(table.get("harmless", ())), tuple(table.get("never", ())), table["why"])
            rules |= dict.fromkeys(table["keywords"], rule)
    names, named = parameters(operation, kind)
    watched = tuple(position for position, name in enumerate(names) if name in rules or name in ITEM_TYPES)
    needed = next(
        ((table["arguments"], table["why"]) for table in tables["needed"] if operation in table["for"]), None
    )
    free = operation in tables["functions"]["free_keywords"]
    return ArgumentRules(library, names, named, rules, watched, needed, free)
