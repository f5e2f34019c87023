"""Find the line of the user's program that called duetlink, for errors that several members see."""

from __future__ import annotations

import os
import sys


def here() -> str:
    """Return the line of the first caller outside duetlink, such as `train.py:12`, without its folders.

    In a notebook the file is the cell: `cell 3:12`, if IPython has its number.
    """
    frame = sys._getframe(1)
    ours = __name__.partition(".")[0]
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == ours:
        frame = frame.f_back
    file = os.path.basename(frame.f_code.co_filename)
    if "ipykernel" in frame.f_code.co_filename and (ipython := sys.modules.get("IPython")) is not None:
        shell = ipython.get_ipython()
        file = f"cell {shell.execution_count}" if shell is not None else file
    return f"{file}:{frame.f_lineno}"
