"""Two real processes that hold the two sides of a duet."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PEER = Path(__file__).with_name("peer.py")


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
