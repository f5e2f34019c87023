"""A few lines of an object, for the person who decides whether it may leave. Stays on this side."""

from __future__ import annotations

import reprlib

from duetlink.base.quantities import size_text
from duetlink.duet.objects.asset import Content

_LONGEST = 4000  # characters
_BUILTINS = (str, bytes, bytearray, list, tuple, dict, set, frozenset)


def preview_text(obj: object, longest: int = _LONGEST) -> str:
    """`repr` of `obj`, which libraries shorten themselves; of builtin containers, the beginning. At most
    `longest` characters.
    """
    text = _brief.repr(obj) if isinstance(obj, _BUILTINS) else repr(obj)
    return text if len(text) <= longest else text[:longest] + "…"


def preview_of(content: Content) -> str:
    """The beginning of what would leave, as text."""
    shown = content.look()
    if shown is None:
        return f"not shown: it has {size_text(content.size_bytes)}, and its original is gone"
    return preview_text(shown)


def _make_brief() -> reprlib.Repr:
    brief = reprlib.Repr()
    brief.maxlist = brief.maxtuple = brief.maxdict = brief.maxset = brief.maxfrozenset = 20
    brief.maxstring = brief.maxother = 1000
    brief.maxlevel = 4
    return brief


_brief = _make_brief()
