"""Teams of processes that sum arrays, each by its own way; they work in turn, and wait in between."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import IO, Any

import click

Start = Callable[..., subprocess.Popen[str]]
_CALLED_BYTES = 8 * 1024 * 1024  # of the calls in a row, at most 40 and at least 2


def _here(rank: int, command: list[str], **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(command, **options)


class Team:
    """The processes of one way. Rank 0 prints where the others find it, then the seconds of each order.

    `start(rank, command, **options of Popen)` starts each one; by default on this host.
    """

    def __init__(self, module: str, *words: str, members: int, start: Start | None = None) -> None:
        self._popen = start or _here
        self._command = [sys.executable, "-m", module, *words]
        self._name = " ".join([module, *words])
        first = self._start(0, members, "", stdout=subprocess.PIPE)
        self._processes = [first]
        assert first.stdout is not None
        self._told = first.stdout
        place = self._next()["place"]
        self._processes += [self._start(rank, members, place) for rank in range(1, members)]

    def _start(
        self, rank: int, members: int, place: str, stdout: int | IO[str] = subprocess.DEVNULL
    ) -> subprocess.Popen[str]:
        words = [*self._command, str(rank), str(members), place]
        return self._popen(rank, words, stdin=subprocess.PIPE, stdout=stdout, text=True)

    def _next(self) -> dict[str, Any]:
        for line in self._told:
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                return found
        raise click.ClickException(f"a member of {self._name} failed")

    def seconds(self, size_bytes: int, way: str = "") -> float:
        """Have all members call `way` some times in a row; return the seconds of one call at rank 0."""
        return float(self.told(size_bytes, way)["seconds"]) / self._calls(size_bytes)

    def told(self, size_bytes: int, way: str) -> dict[str, Any]:
        """Have all members call `way` some times in a row; return what rank 0 tells of all calls."""
        calls = self._calls(size_bytes)
        order = json.dumps({"items": size_bytes // 4, "calls": calls, "way": way})
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(order + "\n")
            process.stdin.flush()
        return self._next()

    def _calls(self, size_bytes: int) -> int:
        return max(2, min(40, _CALLED_BYTES // size_bytes))

    def close(self) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        codes = [process.wait(60) for process in self._processes]
        if any(codes):
            raise click.ClickException(f"a member of {self._name} failed")
