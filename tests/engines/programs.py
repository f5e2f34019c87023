"""The engines' own programs, as processes that end with the test, and the ports that they listen on."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

_START_TIMEOUT_S = 60.0


class Programs:
    """Starts programs of one environment in one directory."""

    def __init__(self, bin_: Path, directory: Path) -> None:
        self.directory = directory
        self._bin = bin_
        self._running: list[subprocess.Popen[bytes]] = []
        self._environment = os.environ | {
            "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}",
            "FLWR_HOME": str(directory),
            "FLWR_TELEMETRY_ENABLED": "0",
            "PYTHONUNBUFFERED": "1",
        }

    def start(self, name: str, *arguments: str) -> None:
        """Start a program in the background; what it prints is kept."""
        with (self.directory / f"{name}-{len(self._running)}.log").open("wb") as log:
            self._running.append(
                subprocess.Popen(
                    [str(self._bin / name), *arguments],
                    cwd=self.directory,
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )

    def run(self, name: str, *arguments: str, timeout_s: float = 240) -> str:
        """Run a program to its end; returns what it printed. Raises where it fails."""
        done = subprocess.run(
            [str(self._bin / name), *arguments],
            cwd=self.directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def python(self, source: str, *arguments: str) -> str:
        """Run Python source in the engines' environment, from a file: Spark looks for its own by that."""
        program = self.directory / "client.py"
        program.write_text(source)
        return self.run("python", str(program), *arguments)

    def logs(self) -> str:
        """The end of what each program has printed, for a person."""
        return "\n".join(
            f"--- {path.name}\n{path.read_text(errors='replace')[-2000:]}"
            for path in sorted(self.directory.glob("*.log"))
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for program in reversed(self._running):
            program.terminate()
        for program in self._running:
            try:
                program.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(program.pid, 9)  # the session that `start` made for it
                program.wait()


def wait_listening(port: int, host: str = "127.0.0.1") -> None:
    """Return once somebody listens there."""
    deadline_s = time.monotonic() + _START_TIMEOUT_S
    while True:
        try:
            socket.create_connection((host, port), timeout=1).close()
        except OSError:
            assert time.monotonic() < deadline_s, f"nothing listens on {host}:{port}"
            time.sleep(0.1)
        else:
            return
