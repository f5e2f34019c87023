"""Chooses names for the variables of printed code, after assets and operations."""

from __future__ import annotations

import builtins
import keyword
import re

COUNTERS = "ijk"  # loop counters, from the outermost
_MAX_HINT = 24  # characters

_MODULES = "np pd pl sm F torch sklearn statsmodels scipy operator math datetime"
_OURS = "asset characters fitted items operation constant malformed undefined"
# names that printed code uses itself
RESERVED = frozenset((*_MODULES.split(), *_OURS.split(), "_", *COUNTERS))
_COMPARING = "eq ne lt le gt ge and or xor invert isnan isin logical_and logical_or logical_not"
_COMPARISONS = frozenset(_COMPARING.split())
# The result of these keeps the name of the first argument
_KEEPING = "add sub mul truediv floordiv mod pow neg pos abs subtract multiply divide"
_ALIKE = frozenset((*_KEEPING.split(), "getitem", "round", "clone", "copy", "to", "fit", "fitted"))
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


class Names:
    """Gives each name only once."""

    def __init__(self) -> None:
        self._taken = set(RESERVED)

    def new(self, hint: str) -> str:
        """Return `hint` itself, or `hint` with a number if it is taken."""
        base = hint if usable(hint) else f"{hint}_" if usable(f"{hint}_") else "result"
        name, count = base, 1
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        return name


def usable(name: str) -> bool:
    """Return True if a name may be a variable and has no other meaning in Python. Only ASCII: letters can
    look alike.
    """
    return (
        _IDENTIFIER.fullmatch(name) is not None
        and not keyword.iskeyword(name)
        and not hasattr(builtins, name)
    )


def is_identifier(name: str) -> bool:
    """Return True if a name may follow a dot."""
    return re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is not None and not keyword.iskeyword(name)


def hint_of(operation: str, first: str, key: object = None) -> str:
    """Return a name for the result of an operation on something named `first`.

    `key` is the operation's second argument, if that is a literal.
    """
    bare = operation.removeprefix("@").rpartition(".")[2].strip("_") or "result"
    if bare in _COMPARISONS:
        return "mask"
    if bare == "getitem" and isinstance(key, str) and usable(key) and len(key) <= _MAX_HINT:
        return key
    if bare.endswith(("loss", "cross_entropy")):
        return "loss"
    if bare in _ALIKE:
        return first or bare
    if first.endswith(bare):
        return first
    if operation[0] in ".@" and first and len(first) + len(bare) < _MAX_HINT:
        return f"{first}_{bare}"
    # splits LogisticRegression, but not SVC
    return (
        re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", bare).lower()[:_MAX_HINT].strip("_")
    )
