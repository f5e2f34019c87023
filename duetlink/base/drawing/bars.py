"""Progress bars: tqdm's in a notebook and in a terminal, and a line a minute in a log."""

from __future__ import annotations

from typing import Any

from duetlink.base.drawing import screen


def bar(**options: Any) -> Any:
    """Return a tqdm bar with these options, for a task that began `screen.delay_s()` ago."""
    if screen.is_log():
        from duetlink.base.drawing.log_bar import LogBar

        made: Any = LogBar(**options)
    else:
        from tqdm.auto import tqdm

        made = tqdm(**options)
    if not made.disable:  # TQDM_DISABLE
        made.start_t -= screen.delay_s()
        made.last_print_t -= screen.delay_s()
    return made
