"""A short text of an object, for the person who decides whether it may leave. It stays on this side."""

from __future__ import annotations

import reprlib

from duetlink.base.quantities import size_text
from duetlink.base.wire.text import harmless_lines
from duetlink.duet.objects.asset import Content

_LONGEST = 4000  # characters
_BUILTINS = (str, bytes, bytearray, int, list, tuple, dict, set, frozenset)
_DECIMAL_BITS = 2_000  # at most 603 digits; Python's lowest limit for converting integers is 640


def preview_text(obj: object, longest: int = _LONGEST) -> str:
    """Return the `repr` of `obj`; libraries shorten theirs, builtin containers are cut here.

    At most `longest` characters, plus escapes for control and direction characters. Never raises: an object
    that cannot be shown gives a text that says so.
    """
    try:
        text = _brief.repr(obj) if isinstance(obj, _BUILTINS) else repr(obj)
        return harmless_lines(text if len(text) <= longest else text[:longest] + "…")
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # from a library's repr; a panic of Rust is no Exception
        return f"not shown: its repr raises {type(error).__name__}"


def preview_of(content: Content) -> str:
    """Return the beginning of what would leave, as text. Raises what decoding raises."""
    shown = content.look()
    if shown is None:
        return f"not shown: it has {size_text(content.size_bytes)}, and its original is gone"
    return preview_text(shown)


class _Brief(reprlib.Repr):
    """Shortens builtin containers. Long integers are shown in hexadecimal, since converting to decimal takes
    quadratic time and Python refuses long ones.
    """

    def repr_int(self, x: int, level: int) -> str:
        if x.bit_length() <= _DECIMAL_BITS:
            return repr(x)
        text = f"{x:#x}"
        shown = text if len(text) <= self.maxlong else f"{text[: self.maxlong]}…"
        return f"{shown} ({x.bit_length():,} bits)"


def _make_brief() -> reprlib.Repr:
    brief = _Brief()
    brief.maxlist = brief.maxtuple = brief.maxdict = brief.maxset = brief.maxfrozenset = 20
    brief.maxstring = brief.maxother = brief.maxlong = 1000
    brief.maxlevel = 4
    return brief


_brief = _make_brief()
