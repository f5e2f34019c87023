"""Until two notebooks are connected: `launch` and `join`, warm and in fresh interpreters, and the import.

In the first rows both sides are in one process. "The joining side alone" and "the owner's side alone" are a
fresh interpreter each, measured from its start until it is connected to this process, in which everything is
loaded. A fresh interpreter is measured with the byte code that Python keeps, and where it may keep none, as
in some containers.
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
from collections.abc import Callable, Iterator

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
_JOIN = """
import sys, duetlink
duet = duetlink.join(sys.argv[1])
print("connected", flush=True)
sys.stdin.read()
duet.close()
"""
_LAUNCH = """
import sys, duetlink
duet = duetlink.launch()
print("code", duet.code, flush=True)
duet.wait_connected(30)
print("connected", flush=True)
sys.stdin.read()
duet.close()
"""
_IMPORT = "import time; start = time.perf_counter(); import duetlink; print(time.perf_counter() - start)"


@benchmark
@rounds(7)
def main(rounds: int) -> None:
    fresh: dict[str, Callable[..., float]] = {
        "launch + join in a fresh interpreter": functools.partial(_printed, _CONNECT),
        "the joining side alone": _join,
        "the owner's side alone": _launch,
        "import duetlink": functools.partial(_printed, _IMPORT),
    }
    ways: dict[str, Callable[[], float]] = {"launch + join to connected": _pair}
    for name, way in fresh.items():
        ways[f"{name}, with byte code"] = way
        ways[f"{name}, without byte code"] = functools.partial(way, byte_code=False)
    for way in ways.values():
        way()  # byte code is there
    samples = interleave(ways, rounds)
    report(
        "start",
        "Start, until connected",
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


def _join(*, byte_code: bool = True) -> float:
    """Connect an interpreter that only joins; return the seconds from its start until it is connected."""
    with contextlib.redirect_stdout(io.StringIO()), duetlink.launch() as owner:
        start_s = time.perf_counter()
        with _interpreter(_JOIN, str(owner.code), byte_code=byte_code) as scientist:
            _line(scientist, "connected")
            return time.perf_counter() - start_s


def _launch(*, byte_code: bool = True) -> float:
    """Connect an interpreter that only launches; return the seconds from its start until it is connected.

    This process joins as soon as it has read the code.
    """
    start_s = time.perf_counter()
    with _interpreter(_LAUNCH, byte_code=byte_code) as owner:
        code = _line(owner, "code").split()[1]
        with contextlib.redirect_stdout(io.StringIO()), duetlink.join(code):
            _line(owner, "connected")
            return time.perf_counter() - start_s


def _line(interpreter: subprocess.Popen[str], word: str) -> str:
    """Return the next line of the output that begins with `word`."""
    assert interpreter.stdout is not None
    for line in interpreter.stdout:
        if line.split()[:1] == [word]:
            return line
    raise RuntimeError(f"the interpreter ended without printing {word!r}")


@contextlib.contextmanager
def _interpreter(program: str, *arguments: str, byte_code: bool) -> Iterator[subprocess.Popen[str]]:
    """Run a program in an interpreter of its own, which may end when its input does."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    with tempfile.TemporaryDirectory() as empty:
        if not byte_code:
            environment |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": empty}
        command = [sys.executable, "-c", program, *arguments]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as interpreter:
            yield interpreter


def _printed(program: str, *, byte_code: bool = True) -> float:
    """Run a program, and return the number that it prints last."""
    with _interpreter(program, byte_code=byte_code) as interpreter:
        return float(interpreter.communicate()[0].split()[-1])


if __name__ == "__main__":
    main()
