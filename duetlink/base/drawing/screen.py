"""Choose where and when a slow call shows its progress.

A notebook and a terminal are redrawn. Anything else (a file, a pipe, the log of a job) keeps every drawing as
another line, so it gets one a minute.
"""

from __future__ import annotations

import sys

from duetlink.panel import in_notebook

DELAY_S = 1.0  # users do not wonder about a shorter wait
LOG_INTERVAL_S = 60.0


def is_log() -> bool:
    """Return True if output cannot be overwritten."""
    return not in_notebook() and (sys.stderr is None or not sys.stderr.isatty())


def delay_s() -> float:
    """Return the seconds before a call shows anything."""
    return LOG_INTERVAL_S if is_log() else DELAY_S


def write(words: str) -> None:
    """Write to stderr, as progress bars do."""
    if sys.stderr is not None:  # a program without a console has none
        sys.stderr.write(words)
        sys.stderr.flush()
