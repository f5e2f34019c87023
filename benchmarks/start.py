"""Until two notebooks are connected: `launch` and `join`, warm and in a fresh interpreter, and the import.

Both sides are in one process. A fresh interpreter is measured with the byte code that Python keeps, and where
it may keep none, as in some containers.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import duetlink
from benchmarks.command import benchmark, rounds
from benchmarks.harness import interleave, report

_CONNECT = """
import time
start = time.perf_counter()
import duetlink
owner = duetlink.launch()
scientist = duetlink.join(owner.code)
owner.wait_connected(30)
print(time.perf_counter() - start)
scientist.close()
owner.close()
"""
_IMPORT = "import time; start = time.perf_counter(); import duetlink; print(time.perf_counter() - start)"


@benchmark
@rounds(7)
def main(rounds: int) -> None:
    ways: dict[str, Callable[[], float]] = {
        "launch + join to connected": _pair,
        "the same in a fresh interpreter": functools.partial(_fresh, _CONNECT),
        "the same without byte code": functools.partial(_fresh, _CONNECT, byte_code=False),
        "import duetlink": functools.partial(_fresh, _IMPORT),
        "import duetlink, without byte code": functools.partial(_fresh, _IMPORT, byte_code=False),
    }
    for way in ways.values():
        way()  # byte code is there
    samples = interleave(ways, rounds)
    report(
        "start",
        "Start, both sides in one process",
        ["what", "ms, median (least to most)"],
        [[name, f"{sample.median_s * 1000:.3g} ({sample.spread})"] for name, sample in samples.items()],
        {name: sample.times_s for name, sample in samples.items()},
    )


def _pair() -> float:
    with contextlib.redirect_stdout(io.StringIO()):
        start_s = time.perf_counter()
        with duetlink.launch() as owner, duetlink.join(str(owner.code)):
            owner.wait_connected(30)
            return time.perf_counter() - start_s


def _fresh(program: str, *, byte_code: bool = True) -> float:
    """Run a program in an interpreter of its own, and return the number that it prints last."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    with tempfile.TemporaryDirectory() as empty:
        if not byte_code:
            environment |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": empty}
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return float(done.stdout.split()[-1])


if __name__ == "__main__":
    main()
