"""What stands for a notebook's kernel on a host: runs statements from stdin, one JSON string per line.

Each is answered with one line of JSON: `{"out": …}`, the value that it gave to `out`, or `{"error": …}`.
What the statements print goes to stderr. They find the functions of this file, and some modules.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
import traceback

import numpy as np
import xxhash

import duetlink
from duetlink.settings import Settings


def digest(array: np.ndarray) -> str:
    return xxhash.xxh3_64_hexdigest(array.data)


def approve_all(duet: duetlink.Duet) -> None:
    """Answer every request with a yes, on a thread of its own, until the duet closes."""

    def approve() -> None:
        with contextlib.suppress(duetlink.DuetError):
            while True:
                duet.wait_request().approve()

    threading.Thread(target=approve, daemon=True).start()


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    scope: dict[str, object] = {"duetlink": duetlink, "Settings": Settings, "np": np}
    scope |= {"time": time, "threading": threading, "digest": digest, "approve_all": approve_all}
    print("{}", file=answers, flush=True)
    for line in sys.stdin:
        scope["out"] = None
        try:
            exec(json.loads(line), scope)  # the tests' own statements
            answer = {"out": scope["out"]}
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
