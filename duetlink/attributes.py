"""Errors for unknown attributes, with suggestions of similar names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from duetlink.errors import UnknownAttribute

_MOST_LISTED = 20
_MOST_NEAR = 3


def unknown(what: str, name: str, names: Iterable[str]) -> UnknownAttribute:
    """Return the error for an unknown attribute `name` of an object that has the attributes `names`.

    `what` is the object in words, such as "a duet".
    """
    public = sorted({each for each in names if not each.startswith("_")})
    if near := nearest(name, public):
        hint = f"did you mean {' or '.join(map(repr, near))}?"
    elif len(public) <= _MOST_LISTED:
        hint = f"it has {', '.join(public)}"
    else:
        hint = "dir() lists what it has"
    return UnknownAttribute(f"{what} has no attribute {name!r}; {hint}")


def nearest(name: str, names: Iterable[str]) -> list[str]:
    """Return up to three of `names` that resemble `name`, the most similar first."""
    import difflib  # imported here, since it is needed for errors only

    public = list(names)
    begun = [each for each in public if len(name) > 2 and each.startswith(name)]
    return list(dict.fromkeys(begun + difflib.get_close_matches(name, public)))[:_MOST_NEAR]


class KnownAttributes:
    """A base class whose instances reject unknown public attributes, so that typing errors are noticed.

    Public attributes are those of the class. Only properties with a setter can be set.
    """

    __slots__ = ()

    if not TYPE_CHECKING:  # a type checker would accept every name because of __getattr__

        def __getattr__(self, name: str) -> Any:
            kind = type(self)
            if name.startswith("_"):
                raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}")
            if hasattr(kind, name):  # a property raised AttributeError inside: raise that one again
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
