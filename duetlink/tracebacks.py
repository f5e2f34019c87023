"""Short tracebacks in IPython: only the user's own lines and the message.

IPython calls the method `_render_traceback_` of an exception, if it has one, instead of formatting the
traceback itself. A script, and IPython after `%xmode Verbose`, still show all frames.
"""

from __future__ import annotations

import functools
import os
import sys
import traceback
from types import FrameType, TracebackType
from typing import Any


def rendered(error: BaseException) -> list[str]:
    """Return the lines that IPython prints for `error`: the user's frames with little context, the message.

    Frames of duetlink and of installed libraries are left out.
    """
    shell = _shell()
    if shell is None:
        return traceback.format_exception(error)
    formatter = shell.InteractiveTB
    frames = _own(error.__traceback__)
    if not frames or formatter.mode == "Verbose":
        return _lines(formatter.structured_traceback(type(error), error, error.__traceback__))
    several = len(frames) > 1
    context = 2 if several else 3  # two frames and the message are at most ten lines
    chain = error.__cause__, error.__context__, error.__suppress_context__
    error.__cause__, error.__context__ = None, None  # the message contains the cause where it matters
    try:
        lines = _lines(
            formatter.structured_traceback(type(error), error, _linked(frames), context=context, tb_offset=0)
        )
        return [line for line in lines if line.strip()] if several else lines
    finally:
        error.__cause__, error.__context__, error.__suppress_context__ = chain


def shorten(interrupt: KeyboardInterrupt) -> None:
    """Make IPython print few lines for an interrupt that came while duetlink was waiting."""
    # no reference to the exception itself: that would be a cycle, and keep all objects of its frames alive
    interrupt._render_traceback_ = _rendered_now  # type: ignore[attr-defined]


def _rendered_now() -> list[str]:
    error = sys.exception()
    return [] if error is None else rendered(error)


def _shell() -> Any:
    ipython = sys.modules.get("IPython")  # imported already if it is in use
    return ipython.get_ipython() if ipython is not None else None


@functools.cache
def _libraries() -> tuple[str, ...]:
    """Return the directories of duetlink, the standard library and installed packages."""
    import sysconfig  # imported here, since only a traceback in IPython needs it

    paths = sysconfig.get_paths()
    ours = os.path.join(os.path.dirname(__file__), "")
    return ours, *(paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))


def _own(trace: TracebackType | None) -> list[TracebackType]:
    """Return the user's frames, outermost first."""
    found = []
    while trace is not None:
        if not _is_library(trace.tb_frame):
            found.append(trace)
        trace = trace.tb_next
    return found


def _is_library(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    if file == "<string>":  # methods that dataclasses generate belong to the module of their class
        return str(frame.f_globals.get("__name__")).partition(".")[0] == "duetlink"
    return file.startswith(_libraries())


def _linked(frames: list[TracebackType]) -> TracebackType | None:
    linked: TracebackType | None = None
    for trace in reversed(frames):
        linked = TracebackType(linked, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)
    return linked


def _lines(parts: list[str]) -> list[str]:
    """Split IPython's parts into lines; some parts have several."""
    return [line for part in parts for line in part.split("\n")]
