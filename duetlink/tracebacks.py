"""Short tracebacks in IPython: of an error that says what to do, the user's own lines and the message.

IPython asks an exception for the method `_render_traceback_` before it formats a traceback itself. In a
script Python prints all frames, and so does IPython after `%xmode Verbose`.
"""

from __future__ import annotations

import functools
import os
import sys
import traceback
from types import FrameType, TracebackType
from typing import Any


def rendered(error: BaseException) -> list[str]:
    """The lines that IPython prints for `error`: those of its frames that are neither duetlink's nor of an
    installed library, with no more of the code around them than fits, and the message.
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
    error.__cause__, error.__context__ = None, None  # what led to it is in the message, where it matters
    try:
        lines = _lines(
            formatter.structured_traceback(type(error), error, _linked(frames), context=context, tb_offset=0)
        )
        return [line for line in lines if line.strip()] if several else lines
    finally:
        error.__cause__, error.__context__, error.__suppress_context__ = chain


def shorten(interrupt: KeyboardInterrupt) -> None:
    """Let IPython print few lines for an interrupt that came while duetlink was waiting."""
    # without a reference to the exception, which would hold its frames, with all that is in them, in a cycle
    interrupt._render_traceback_ = _rendered_now  # type: ignore[attr-defined]


def _rendered_now() -> list[str]:
    error = sys.exception()
    return [] if error is None else rendered(error)


def _shell() -> Any:
    ipython = sys.modules.get("IPython")  # who prints by it has imported it
    return ipython.get_ipython() if ipython is not None else None


@functools.cache
def _libraries() -> tuple[str, ...]:
    """The directories whose code is not the user's."""
    import sysconfig  # here: only a traceback in IPython needs it

    paths = sysconfig.get_paths()
    ours = os.path.join(os.path.dirname(__file__), "")
    return ours, *(paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))


def _own(trace: TracebackType | None) -> list[TracebackType]:
    """The user's frames, outermost first."""
    found = []
    while trace is not None:
        if not _is_library(trace.tb_frame):
            found.append(trace)
        trace = trace.tb_next
    return found


def _is_library(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    if file == "<string>":  # what dataclasses write for a class runs as part of its module
        return str(frame.f_globals.get("__name__")).partition(".")[0] == "duetlink"
    return file.startswith(_libraries())


def _linked(frames: list[TracebackType]) -> TracebackType | None:
    linked: TracebackType | None = None
    for trace in reversed(frames):
        linked = TracebackType(linked, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)
    return linked


def _lines(parts: list[str]) -> list[str]:
    """IPython joins the parts by line ends; some of them begin or end with one."""
    return [line for part in parts for line in part.split("\n")]
