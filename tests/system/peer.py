"""A scientist or an owner in a process of its own, driven by lines on stdin: `python peer.py ROLE [CODE]`.

Each line is one statement, run with `duet`, `np` and what earlier lines defined; after each, one line is
answered: `ok` and the repr of `out` if set, or `error` and the exception's type and text.
"""

from __future__ import annotations

import itertools
import os
import sys
import traceback

import numpy as np

import duetlink
from duetlink.settings import Settings
from tests import light_rooms


def main() -> None:
    light_rooms.use()
    role, *code = sys.argv[1:]
    quick = Settings(
        heartbeat_interval_s=0.2,
        heartbeat_timeout_s=2.0,
        reconnect_timeout_s=2.0,
        audit_path=os.environ.get("DUETLINK_AUDIT_PATH", ""),  # which `Settings()` does not read
    )
    scope: dict[str, object] = {"np": np, "duetlink": duetlink, "Settings": Settings, "quick": quick}
    prefix = "duetlink.launch(" if role == "owner" else f"duetlink.join({code[0]!r}, "
    for line in itertools.chain(["duet = " + prefix + "settings=quick)"], sys.stdin):
        scope["out"] = None
        try:
            exec(line, scope)  # this test's own statements
            print("ok", repr(scope["out"]), flush=True)
        except Exception as error:
            traceback.print_exc()
            print("error", type(error).__name__, str(error).replace("\n", " "), flush=True)


if __name__ == "__main__":
    main()
