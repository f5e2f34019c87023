"""A notebook on a host, kept for all links that the host takes part in: starting one costs over a second."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from tests.lab.lab import Host


class NotebookError(Exception):
    """A statement raised there."""


class Notebook:
    """Runs statements on its host; see `interpreter.py` for what they may use."""

    def __init__(self, host: Host, environment: dict[str, str] | None = None) -> None:
        self.host = host
        self._log = (host.home / "notebook.log").open("w")
        self._process = host.popen(
            [sys.executable, "-m", "tests.lab.interpreter"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, bufsize=1,
            env=environment or {},
        )  # fmt: skip
        self._begun = 1  # the first answer says that it is up

    @property
    def pid(self) -> int:
        """As this machine counts."""
        return self._process.pid

    def begin(self, statement: str) -> None:
        """Let it run; `answer` waits for it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(statement) + "\n")
        self._begun += 1

    def answer(self) -> Any:
        """Of what was begun last, after all that was begun before it. Raises NotebookError."""
        answer: dict[str, Any] = {}
        assert self._process.stdout is not None
        while self._begun:
            line = self._process.stdout.readline()
            if not line:
                raise NotebookError(f"the notebook of {self.host.kind} ended: {self.log()}")
            self._begun -= 1
            answer = json.loads(line)
        if "error" in answer:
            raise NotebookError(f"on {self.host.kind}: {answer['error']}")
        return answer.get("out")

    def run(self, statement: str) -> Any:
        """Run a statement and return what it put into `out`."""
        self.begin(statement)
        return self.answer()

    def value(self, expression: str) -> Any:
        return self.run(f"out = {expression}")

    def log(self) -> str:
        """The end of what it has printed."""
        return (self.host.home / "notebook.log").read_text()[-4000:]

    def close(self) -> None:
        """End it as a person does. Safe to call twice."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        self._log.close()
