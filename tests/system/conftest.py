"""Real processes: two that hold the two sides of a duet, and kernels in which anything may run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PEER = Path(__file__).with_name("peer.py")
KERNEL = Path(__file__).with_name("kernel.py")


class Peer:
    """One process; `run` executes a statement there and returns what it answers."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(PEER), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self.first = self.answer()

    def begin(self, statement: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(statement + "\n")

    def answer(self) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(("ok ", "error ")):
                return line.strip()
        raise AssertionError(f"the peer process ended with {self.process.wait()}")

    def run(self, statement: str) -> str:
        self.begin(statement)
        return self.answer()

    def value(self, expression: str) -> str:
        answer = self.run(f"out = {expression}")
        assert answer.startswith("ok "), answer
        return answer.removeprefix("ok ")

    def end(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def peers() -> Iterator[Callable[[], tuple[Peer, Peer]]]:
    """Makes a connected owner process and scientist process."""
    made: list[Peer] = []

    def make() -> tuple[Peer, Peer]:
        owner = Peer("owner")
        made.append(owner)
        scientist = Peer("scientist", owner.value("duet.code").strip("'"))
        made.append(scientist)
        assert scientist.first == "ok None", scientist.first
        owner.run("duet.wait_connected(10)")
        return owner, scientist

    yield make
    for peer in reversed(made):
        peer.end()


class Kernel:
    """One process of `kernel.py`. `run` executes a statement there and returns what it answers."""

    def __init__(self, home: Path, wrapper: tuple[str, ...] = ()) -> None:
        # its audit log and all else that it keeps are its own
        environment = {**os.environ, "HOME": str(home), "XDG_DATA_HOME": str(home), "DUETLINK_SIGNALING": ""}
        environment.pop("DUETLINK_AUDIT_PATH", None)
        self.errors = (home / "stderr").open("wb")
        self.process = subprocess.Popen(
            [*wrapper, sys.executable, str(KERNEL)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            bufsize=1,
            env=environment,
        )
        assert self.answer() == "ok None"

    def begin(self, statement: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(statement + "\n")

    def line(self, *beginnings: str) -> str:
        """The next line that begins with one of these."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(beginnings):
                return line.strip()
        raise AssertionError(f"the kernel ended with {self.process.wait()}: {self.errors.name}")

    def answer(self) -> str:
        return self.line("ok ", "error ")

    def run(self, statement: str) -> str:
        self.begin(statement)
        return self.answer()

    def value(self, expression: str) -> str:
        answer = self.run(f"out = {expression}")
        assert answer.startswith("ok "), answer
        return answer.removeprefix("ok ")

    def waits(self, statement: str) -> list[str]:
        """Begin the statement; returns when it stands still, with duetlink's part of the stack."""
        self.begin(f"watch {statement}")
        line = self.line("waiting ", "ok ", "error ")
        assert line.startswith("waiting "), f"{statement} did not wait: {line}"
        found: list[str] = json.loads(line.removeprefix("waiting "))
        return found

    def interrupt(self) -> str:
        """Ctrl-C; returns what became of the statement that runs."""
        self.process.send_signal(signal.SIGINT)
        return self.answer()

    def stop(self) -> None:
        """Nothing runs there any more, as in a machine that sleeps; returns when that is so."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def wake(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.errors):
            assert pipe is not None
            pipe.close()


MakeKernel = Callable[..., Kernel]


@pytest.fixture
def make_kernel(tmp_path: Path) -> Iterator[MakeKernel]:
    made: list[Kernel] = []

    def make(*wrapper: str) -> Kernel:
        home = tmp_path / f"home-{len(made)}"
        home.mkdir()
        made.append(Kernel(home, wrapper))
        return made[-1]

    yield make
    for kernel in made:
        kernel.end()
