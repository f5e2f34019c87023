"""What becomes of a library that wants plain values of something private: one that draws gets the mock, with
a warning at the user's line, and any other gets PrivateValue.
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
from duetlink.duet.asking.recording.ways import way_of
from duetlink.errors import OperationRefused, PrivateValue

_DRAWING = frozenset({"altair", "bokeh", "matplotlib", "plotly", "seaborn"})
_FORMULAS = frozenset({"formulaic", "patsy"})
_COMPUTING = frozenset({"numpy", "pandas", "polars", "pyarrow", "scipy", "sklearn", "statsmodels"})
_ASKING_KIND = (
    "duetlink.",
    "pandas.core.dtypes.generic",
)  # what lies between pandas' question and check_kind
# where pandas takes several objects, or any
_JOINING = ("pandas.core.reshape.", "pandas.core.algorithms", "pandas.core.tools.")
_LIBRARIES = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))


class MockUsed(UserWarning):
    """A drawing or a listing is of the mock of something private."""


def is_for_a_drawing() -> bool:
    """Whether a library that draws has asked. To be called by what the method that is asked calls."""
    return sys._getframe(3).f_globals.get("__name__", "").partition(".")[0] in _DRAWING


def hand_out(what: str, allowed: Allowed) -> None:
    """Return, with a warning, where a library that draws wants plain values of `what`. To be called by the
    method that gives it the mock's.

    Raises:
        PrivateValue: another library wants them, or the user's own line; what it would compute of the mock
            would look like a result.
        OperationRefused: the library works out a formula.
    """
    frames, frame = _frames(sys._getframe(1))
    libraries = [_library(one) for one in frames]
    library = libraries[0] if libraries else ""
    if _FORMULAS & set(libraries):
        raise OperationRefused(
            f"a formula would be worked out with the mock of {what}: take "
            "smf = duet.remote(statsmodels.formula.api), and smf.ols(…) and its like from there"
        )
    if _DRAWING & set(libraries):
        words = (
            f"{library} was given the mock of {what}, and what comes of it says nothing about the real data"
        )
        _warn(f"{words}; draw what .get(reason=…) brings", frame)
        return
    _refuse(frames, what, allowed)


def check_loop(what: str, allowed: Allowed) -> None:
    """Raise PrivateValue where a library that computes is about to loop over `what`, and would take pointers
    for values. To be called by the method that loops.
    """
    frame = sys._getframe(2)
    if _library(frame) in _COMPUTING:
        _refuse(_frames(frame)[0], what, allowed)


def check_asked(what: str, allowed: Allowed) -> None:
    """Raise PrivateValue where a library that computes has asked `what` for what is about to be refused: it
    says how the call of that library is made at the owner.
    """
    frames, _ = _frames(sys._getframe(1))
    if frames and _library(frames[-1]) in _COMPUTING:
        _refuse(frames, what, allowed)


def check_kind(what: str, allowed: Allowed) -> None:
    """Raise PrivateValue where pandas is about to join or reshape `what`, and asks whether it is one of its
    own objects, by their attribute `_typ`. To be called by the method that looks the attribute up.

    Elsewhere pandas asks so before it leaves an operator to a pointer.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_ASKING_KIND):
        frame = frame.f_back
    module = frame.f_globals.get("__name__", "") if frame is not None else ""
    if module.startswith(_JOINING):
        _refuse(_frames(frame)[0], what, allowed)


def is_told_apart() -> bool:
    """Whether Polars, `equals` of pandas, or a `ColumnTransformer` by way of Narwhals asks if something is
    an object that it knows, and would go on as with a foreign one. To be called by what tells the class.
    """
    frame = sys._getframe(2)
    library = _library(frame)
    if library == "narwhals":
        modules = (one.f_globals.get("__name__", "") for one in _frames(frame)[0])
        return any(module.startswith("sklearn.compose.") for module in modules)
    return library == "polars" or (library == "pandas" and frame.f_code.co_name == "equals")


def refuse_class(what: str, allowed: Allowed) -> NoReturn:
    """Raise PrivateValue for who asks so. To be called by what tells the class."""
    _refuse(_frames(sys._getframe(2))[0], what, allowed)


def check_row_set(what: str) -> None:
    """Raise OperationRefused where a library that is not written in Python swaps rows of `what`, as NumPy's
    `shuffle` does: each row is a view, so that one of the two would be lost. To be called by `__setitem__`.
    """
    frame = sys._getframe(2)
    if dis.opname[frame.f_code.co_code[frame.f_lasti]] not in ("STORE_SUBSCR", "STORE_SLICE"):
        raise OperationRefused(
            f"shuffle would swap rows of {what}, which are views of it: take a permutation of it, "
            "duet.remote(numpy).random.default_rng(0).permutation(x)"
        )


def warn_hashed(what: str) -> None:
    """Say that a library has looked for `what` among values, where it drops the exception that follows. To be
    called by the method that raises it.
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
        f"{library} wants the values of {what}, and here is only its mock: {way_of(frames, allowed)}; ask "
        "for the values with .get(reason=…); or take the mock, where that is meant: .mock"
    )


def _library(frame: FrameType) -> str:
    """The top package of what runs in a frame."""
    name: str = frame.f_globals.get("__name__", "")
    return name.partition(".")[0]


def _frames(frame: FrameType | None) -> tuple[list[FrameType], FrameType | None]:
    """The frames of libraries from `frame` on, the outermost first, and the line of the notebook that has
    called them.
    """
    while frame is not None and _library(frame) == "duetlink":
        frame = frame.f_back
    frames: list[FrameType] = []
    while frame is not None and frame.f_code.co_filename.startswith(_LIBRARIES):
        frames.insert(0, frame)
        frame = frame.f_back
    return frames, frame


def warn_shown(name: str, what: str) -> None:
    """Say that a drawing or a listing, the method `name`, is of the mock of `what`. To be called by what
    looks the method up.
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
