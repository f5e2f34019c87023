"""Where a call that takes long draws how it stands, and from when on.

A notebook and a terminal are drawn on again and again. Anything else (a file, a pipe, the log of a job) keeps
every drawing as one more line, so it gets one a minute.
"""

from __future__ import annotations

import sys

from duetlink.panel import in_notebook

DELAY_S = 1.0  # of a shorter wait nobody wonders what it is for
LOG_INTERVAL_S = 60.0


def is_log() -> bool:
    """Whether what is drawn cannot be drawn over."""
    return not in_notebook() and (sys.stderr is None or not sys.stderr.isatty())


def delay_s() -> float:
    """For how long nothing is drawn of a call."""
    return LOG_INTERVAL_S if is_log() else DELAY_S


def write(words: str) -> None:
    """To stderr, as progress bars do."""
    if sys.stderr is not None:  # a program without a console has none
        sys.stderr.write(words)
        sys.stderr.flush()
