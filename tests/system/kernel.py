"""A notebook's kernel in a process of its own, driven by lines on stdin: `python kernel.py`.

Each line is one statement, run with what earlier lines defined; after each, one line is answered: `ok` and
the repr of `out` if set, or `error` and the exception's type and text, for an interrupt as well. Where a line
begins with `watch `, `waiting` and where comes first, as soon as the statement stands still in duetlink.
"""

from __future__ import annotations

import itertools
import json
import sys
import threading
import traceback
from types import FrameType

from tests import light_rooms

PAUSE_S = 0.05
STILL = 6  # so many looks in a row have found the same call: three ticks of a wait


def duetlink_frames(thread: int) -> list[FrameType]:
    """Of that thread's stack, the outermost first."""
    found = []
    frame = sys._current_frames().get(thread)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(("duetlink.", "duetlink_gossip.")):
            found.append(frame)
        frame = frame.f_back
    return found[::-1]


def tell_waiting(thread: int, over: threading.Event) -> None:
    """Print where `thread` waits in duetlink once it has stood there for a while."""
    before: list[FrameType] = []
    still = 0
    while not over.wait(PAUSE_S):
        now = duetlink_frames(thread)
        imports = any(frame.f_code.co_name == "<module>" for frame in now)
        still = still + 1 if now and now[-1] in before and not imports else 0
        before = now
        if still == STILL:
            names = [f"{each.f_globals['__name__']}:{each.f_code.co_qualname}" for each in now]
            print("waiting", json.dumps(names), flush=True)
            return


def main() -> None:
    light_rooms.use()
    scope: dict[str, object] = {}
    for line in itertools.chain(["import numpy as np, duetlink"], sys.stdin):
        scope["out"] = None
        over = threading.Event()
        if line.startswith("watch "):
            line = line.removeprefix("watch ")
            threading.Thread(target=tell_waiting, args=(threading.get_ident(), over), daemon=True).start()
        try:
            try:
                exec(line, scope)  # this test's own statements
            finally:
                over.set()
            print("ok", repr(scope["out"]), flush=True)
        except (Exception, KeyboardInterrupt) as error:
            traceback.print_exc()
            print("error", type(error).__name__, str(error).replace("\n", " "), flush=True)


if __name__ == "__main__":
    main()
