"""Attributes that something does not have: read or set, they are an error that names the near ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from duetlink.errors import UnknownAttribute

_MOST_LISTED = 15
_MOST_NEAR = 3


def unknown(what: str, name: str, names: Iterable[str]) -> UnknownAttribute:
    """Of something, such as "a duet", that has `names` and not `name`."""
    public = sorted({each for each in names if not each.startswith("_")})
    if near := nearest(name, public):
        hint = f"did you mean {' or '.join(map(repr, near))}?"
    elif len(public) <= _MOST_LISTED:
        hint = f"it has {', '.join(public)}"
    else:
        hint = "dir() lists what it has"
    return UnknownAttribute(f"{what} has no attribute {name!r}; {hint}")


def nearest(name: str, names: Iterable[str]) -> list[str]:
    """Those of `names` that `name` may stand for, the nearest first."""
    import difflib  # here: few names are wrong

    public = list(names)
    begun = [each for each in public if len(name) > 2 and each.startswith(name)]
    return list(dict.fromkeys(begun + difflib.get_close_matches(name, public)))[:_MOST_NEAR]


class KnownAttributes:
    """A base for what people hold. Public attributes are those that its class has; properties with a setter
    can be set, and nothing else can.
    """

    __slots__ = ()

    if not TYPE_CHECKING:  # which would take every name for known

        def __getattr__(self, name: str) -> Any:
            kind = type(self)
            if name.startswith("_"):
                raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}")
            if hasattr(kind, name):  # a property whose own code has met an AttributeError: that one
                return object.__getattribute__(self, name)
            raise unknown(f"a {kind.__name__}", name, dir(self))

        def __setattr__(self, name: str, value: object) -> None:
            kind = type(self)
            found = getattr(kind, name, None)
            if name.startswith("_") or getattr(found, "fset", None) is not None:
                super().__setattr__(name, value)
            elif found is not None:
                raise UnknownAttribute(f"{name!r} of a {kind.__name__} can be read, and not set")
            else:
                raise unknown(f"a {kind.__name__}", name, dir(self))
