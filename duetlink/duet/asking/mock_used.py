"""The warning that a library computes on a mock, at the line of the user's that made it so."""

from __future__ import annotations

import sys
import sysconfig
import warnings
from types import FrameType

from duetlink.errors import OperationRefused

_DRAWING = frozenset({"altair", "bokeh", "matplotlib", "plotly", "seaborn"})
_FORMULAS = frozenset({"formulaic", "patsy"})
_LIBRARIES = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))


class MockUsed(UserWarning):
    """A library was given the mock of something private, since it asked for plain values."""


def warn(what: str) -> None:
    """Say in one line that a library was given the mock of `what`, and what to call instead. To be called by
    the method that gives it.

    Raises:
        OperationRefused: the library works out a formula; what would come of it looks like a fitted model.
    """
    frame: FrameType | None = sys._getframe(2)
    library = ""
    while frame is not None and frame.f_code.co_filename.startswith(_LIBRARIES):
        library = frame.f_globals.get("__name__", "").partition(".")[0]
        if library in _FORMULAS:
            raise OperationRefused(
                f"a formula would be worked out with the mock of {what}: take "
                "smf = duet.remote(statsmodels.formula.api), and smf.ols(…) and its like from there"
            )
        frame = frame.f_back
    who, remedy = (library, f"duet.remote({library})") if library else ("a library", "duet.remote(LIBRARY)")
    remedy = "draw what .get(reason=…) brings" if library in _DRAWING else f"call it by way of {remedy}"
    words = f"{who} was given the mock of {what}, and what comes of it says nothing about the real data"
    _warn(f"{words}; {remedy}", frame)


def warn_shown(name: str, what: str) -> None:
    """Say that a drawing or a listing, the method `name`, is of the mock of `what`. To be called by what
    looks the method up.
    """
    words = f".{name} shows the mock of {what}, which says nothing about the real data; "
    words += "draw what .get(reason=…) brings"
    _warn(words, sys._getframe(2))


def _warn(message: str, frame: FrameType | None) -> None:
    if frame is None:
        warnings.warn(message, MockUsed, stacklevel=3)
        return
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, MockUsed, frame.f_code.co_filename, frame.f_lineno, registry=registry)
