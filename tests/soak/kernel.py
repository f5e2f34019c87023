"""One process of a soak: a notebook on this machine, of which a workload's object `side` does the work."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.lab.lab import Host
from tests.lab.notebook import Notebook

ROOT = Path(__file__).resolve().parents[2]


class ThisMachine(Host):
    """A host of the lab that has no network of its own."""

    def __init__(self, home: Path, name: str) -> None:
        self.home = home
        self.kind = name  # where its notebook names it
        home.mkdir()

    def popen(self, arguments: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        environment = os.environ | {
            "DUETLINK_AUDIT_PATH": str(self.home.parent / "audit.jsonl"),  # one for all, as of one user
            "JUPYTER_RUNTIME_DIR": str(self.home.parent / "runtime"),
            "XDG_DATA_HOME": str(self.home),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        return subprocess.Popen(arguments, cwd=ROOT, **(options | {"env": environment}))


class Kernel(Notebook):
    """A process in which `side` is an object of `module`'s class `Side`."""

    def __init__(self, home: Path, name: str, module: str, /, **arguments: object) -> None:
        super().__init__(ThisMachine(home, name))
        self.name = name
        words = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        self.begin(f"from tests.soak import census, {module}\nside = {module}.Side({words})")

    def do(self, work: str) -> None:
        """Begin a method of its `side`, such as "share(3)"; `answer` waits for it."""
        self.begin(f"out = side.{work}")

    def did(self, work: str) -> Any:
        self.do(work)
        return self.answer()

    def census(self) -> dict[str, int]:
        found: dict[str, int] = self.run("out = census.take()")
        return found

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)

    def stop(self) -> None:
        """Let it stand still, as a laptop that sleeps."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)


class Kernels:
    """Starts the processes of one run, so that all of them can be ended wherever it fails."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._started: list[Kernel] = []
        self._numbers = itertools.count()

    def start(self, name: str, module: str, /, **arguments: object) -> Kernel:
        """Begin to make a `Side` in a process of its own; its `answer` waits for that."""
        kernel = Kernel(self._home / str(next(self._numbers)), name, module, **arguments)
        self._started.append(kernel)
        return kernel

    def close(self) -> None:
        """Kill those that still run. Whoever waits for an answer of theirs gets a NotebookError."""
        for kernel in self._started:
            kernel.kill()
