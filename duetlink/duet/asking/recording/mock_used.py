"""Decides what a library gets that wants plain values of a private object.

A library that draws gets the mock, with a warning at the user's line. Any other gets PrivateValue, whose text
says how to make the call at the owner instead. Which library asks is found by walking up the Python frames,
so each function here says by which method it has to be called.
"""

from __future__ import annotations

import dis
import sys
import sysconfig
import warnings
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

from duetlink.compute.operations.allow_lists.allowed import Allowed
from duetlink.duet.asking.recording.advice import advice_for
from duetlink.errors import OperationRefused, PrivateValue

_DRAWING = frozenset({"altair", "bokeh", "matplotlib", "plotly", "seaborn"})
_FORMULAS = frozenset({"formulaic", "patsy"})
_COMPUTING = frozenset({"numpy", "pandas", "polars", "pyarrow", "scipy", "sklearn", "statsmodels"})
# modules between the pandas function that looks up `_typ` and check_kind
_ASKING_KIND = ("duetlink.", "pandas.core.dtypes.generic")
# modules of pandas whose functions take several objects, or objects of any kind
_JOINING = ("pandas.core.reshape.", "pandas.core.algorithms", "pandas.core.tools.")
_LIBRARIES = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))


class MockUsed(UserWarning):
    """The warning that a drawing or a listing shows the mock of a private object."""


def is_for_a_drawing() -> bool:
    """Return True if a plotting library has called. To be called by a helper of the called method."""
    return sys._getframe(3).f_globals.get("__name__", "").partition(".")[0] in _DRAWING


def hand_out(what: str, allowed: Allowed) -> None:
    """Warn and return if a plotting library wants plain values of `what`; raise for any other caller.

    To be called by the method that then returns the mock's values.

    Raises:
        PrivateValue: another library or the user's own line wants the values. What it computed from the mock
            would look like a result.
        OperationRefused: the library evaluates a formula.
    """
    frames, frame = _frames(sys._getframe(1))
    libraries = [_library(each) for each in frames]
    library = libraries[0] if libraries else ""
    if _FORMULAS & set(libraries):
        raise OperationRefused(
            f"a formula would be worked out with the mock of {what}: take "
            "smf = duet.remote(statsmodels.formula.api), and smf.ols(…) and its like from there"
        )
    if _DRAWING & set(libraries):
        words = f"{library} was given the mock of {what}, and the result says nothing about the real data"
        _warn(f"{words}; draw what .get(reason=…) brings", frame)
        return
    _refuse(frames, what, allowed)


def check_loop(what: str, allowed: Allowed) -> None:
    """Raise PrivateValue if a computing library is about to loop over `what`: it would take pointers for
    values. To be called by the generator that yields the items.
    """
    frame = sys._getframe(2)
    if _library(frame) in _COMPUTING:
        _refuse(_frames(frame)[0], what, allowed)


def check_asked(what: str, allowed: Allowed) -> None:
    """Raise PrivateValue if a computing library has made the request that is about to be refused.

    The message then says how to make the call of that library at the owner. In all other cases return, and
    the caller raises its own error.
    """
    frames, _ = _frames(sys._getframe(1))
    if frames and _library(frames[-1]) in _COMPUTING:
        _refuse(frames, what, allowed)


def check_kind(what: str, allowed: Allowed) -> None:
    """Raise PrivateValue if pandas is about to join or reshape `what`.

    pandas recognises its own objects by their attribute `_typ`. To be called by the method that looks the
    attribute up. Other modules of pandas read it before they leave an operator to the pointer, which is fine.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_ASKING_KIND):
        frame = frame.f_back
    module = frame.f_globals.get("__name__", "") if frame is not None else ""
    if module.startswith(_JOINING):
        _refuse(_frames(frame)[0], what, allowed)


def is_told_apart() -> bool:
    """Return True if the caller tests the class of a pointer and would treat it as a foreign object.

    Such callers are Polars, `equals` of pandas, and a `ColumnTransformer` by way of Narwhals. To be called by
    the property `__class__`.
    """
    frame = sys._getframe(2)
    library = _library(frame)
    if library == "narwhals":
        modules = (each.f_globals.get("__name__", "") for each in _frames(frame)[0])
        return any(module.startswith("sklearn.compose.") for module in modules)
    return library == "polars" or (library == "pandas" and frame.f_code.co_name == "equals")


def refuse_class(what: str, allowed: Allowed) -> NoReturn:
    """Raise PrivateValue for a caller of `is_told_apart`. To be called by the property `__class__`."""
    _refuse(_frames(sys._getframe(2))[0], what, allowed)


def check_row_set(what: str) -> None:
    """Raise OperationRefused if compiled code, such as NumPy's `shuffle`, swaps rows of `what`.

    Each row is a view, so one of the two rows would be lost. To be called by `__setitem__`.
    """
    frame = sys._getframe(2)
    if dis.opname[frame.f_code.co_code[frame.f_lasti]] not in ("STORE_SUBSCR", "STORE_SLICE"):
        raise OperationRefused(
            f"shuffle would swap rows of {what}, which are views of it: take a permutation of it, "
            "duet.remote(numpy).random.default_rng(0).permutation(x)"
        )


def warn_hashed(what: str) -> None:
    """Warn that a library has looked for `what` among values.

    The library may drop the exception that follows (`isin` of pandas does), so a warning is needed as well.
    To be called by the method that raises it.
    """
    frame: FrameType | None = sys._getframe(2)
    library = frame.f_globals.get("__name__", "").partition(".")[0] if frame is not None else ""
    while frame is not None and frame.f_code.co_filename.startswith(_LIBRARIES):
        frame = frame.f_back
    if library in _COMPUTING:
        words = f"{library} has looked for {what} among values, and not found it, since it is only a pointer"
        _warn(f"{words}; do this at the owner, by duet.remote(obj) on what it was looked for in", frame)


def _refuse(frames: Sequence[FrameType], what: str, allowed: Allowed) -> NoReturn:
    library = _library(frames[0]) if frames else "numpy"
    raise PrivateValue(
        f"{library} wants the values of {what}, and here is only its mock: {advice_for(frames, allowed)}; "
        "ask for the values with .get(reason=…); or take the mock, where that is meant: .mock"
    )


def _library(frame: FrameType) -> str:
    name: str = frame.f_globals.get("__name__", "")
    return name.partition(".")[0]


def _frames(frame: FrameType | None) -> tuple[list[FrameType], FrameType | None]:
    """Return the frames of libraries above `frame`, the outermost first, and the frame of the notebook that
    called them. Frames of duetlink are skipped.
    """
    while frame is not None and _library(frame) == "duetlink":
        frame = frame.f_back
    frames: list[FrameType] = []
    while frame is not None and frame.f_code.co_filename.startswith(_LIBRARIES):
        frames.insert(0, frame)
        frame = frame.f_back
    return frames, frame


def warn_shown(name: str, what: str) -> None:
    """Warn that the method `name`, a drawing or a listing, shows the mock of `what`.

    To be called by the `__getattr__` that returns the method.
    """
    words = f".{name} shows the mock of {what}, which says nothing about the real data; "
    words += "draw what .get(reason=…) brings"
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("duetlink."):
        frame = frame.f_back  # an asset's pointer looks up one method by another
    _warn(words, frame)


def _warn(message: str, frame: FrameType | None) -> None:
    if frame is None:
        warnings.warn(message, MockUsed, stacklevel=3)
        return
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, MockUsed, frame.f_code.co_filename, frame.f_lineno, registry=registry)
