"""The helper process as its kernel sees it: started, sent commands, and ended within a bounded time."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from duetlink.base.runtime.at_exit import open_here
from duetlink.errors import PathUnavailable
from duetlink.net.carrier.configuration import Configuration

_CLOSE_TIMEOUT_S = 2.0
_KEPT_LINES = 20  # last lines of standard error
_SHOWN_CHARACTERS = 600

_LOSS_SECONDS = 5  # the helper reports once a second
_FEW_DATAGRAMS = 50  # with fewer, a loss rate would be chance


class Child:
    """One helper process. Methods belong to the loop that started it.

    `up` resolves to the loopback port by which Flight reaches the peer, or raises PathUnavailable. `ended`
    resolves to the reason, as text, when the process is gone.
    """

    def __init__(self, on_signal: Callable[[bytes], None]) -> None:
        loop = asyncio.get_running_loop()
        self.up: asyncio.Future[int] = loop.create_future()
        self.ended: asyncio.Future[str] = loop.create_future()
        self.description = ""
        self._datagrams: deque[tuple[int, int]] = deque(
            maxlen=_LOSS_SECONDS + 1
        )  # datagrams sent and lost, at each report
        self._on_signal = on_signal
        self._process: Process | None = None
        self._why = ""
        self._errors: deque[str] = deque(maxlen=_KEPT_LINES)
        self._watching: asyncio.Task[None] | None = None

    @property
    def loss(self) -> float | None:
        """The share of datagrams sent in the last seconds that were lost.

        None if few were sent, or if the path is a TCP connection, whose losses only the system knows.
        """
        if not self._datagrams:
            return None
        (sent_before, lost_before), (sent, lost) = self._datagrams[0], self._datagrams[-1]
        if sent - sent_before < _FEW_DATAGRAMS:
            return None
        return min(1.0, (lost - lost_before) / (sent - sent_before))

    async def start(self, configuration: Configuration) -> None:
        """Start the process. Raises PathUnavailable if the system does not allow it."""
        if not sys.executable:
            raise PathUnavailable(
                "this interpreter does not know its own program file (sys.executable), so no helper can start"
            )
        # so that Ctrl-C in the notebook does not reach it
        apart: dict[str, Any] = (
            {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
            if sys.platform == "win32"
            else {"start_new_session": True}
        )
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # the notebook's directory may contain files named like modules
                "-m",
                "duetlink.net.carrier",
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env=_environment(),
                **apart,
            )
        except OSError as error:
            raise PathUnavailable(f"the helper process cannot start: {error.strerror or error}") from None
        open_here.add_child(self._process)
        self._watching = asyncio.ensure_future(self._watch(self._process))
        self._write(configuration.to_json())

    def signal(self, payload: bytes) -> None:
        """Pass a message of the peer's helper to this one."""
        self._write(json.dumps({"signal": base64.b64encode(payload).decode()}))

    async def close(self) -> None:
        """End the process and wait until it is gone, within a few seconds. Safe to call twice."""
        if self._process is None or self._watching is None:
            return
        if self._process.stdin is not None:
            self._process.stdin.close()
        await asyncio.wait((self._watching,), timeout=_CLOSE_TIMEOUT_S)
        if not self._watching.done():
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await asyncio.wait((self._watching,))

    def _write(self, line: str) -> None:
        # the number and size of signals are limited, so there is no need to wait for the pipe
        if self._process is not None and self._process.stdin is not None:
            stdin = self._process.stdin
            if not stdin.is_closing():
                stdin.write(line.encode() + b"\n")

    async def _watch(self, process: Process) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        collecting = asyncio.ensure_future(self._collect_errors(process.stderr))
        async for line in process.stdout:
            try:
                event = json.loads(line)
            except ValueError:  # printed by code that a site customisation has added
                self._errors.append(line.decode(errors="replace"))
            else:
                self._on_event(event)
        status = await process.wait()
        await collecting
        why = self._why or self._crashed(status)
        self._fail(why)
        self.ended.set_result(why)

    def _fail(self, why: str) -> None:
        if not self.up.done():
            self.up.set_exception(PathUnavailable(why))
            self.up.exception()  # mark the error as retrieved: there may be no caller that waits for it

    async def _collect_errors(self, stderr: asyncio.StreamReader) -> None:
        while data := await stderr.read(4096):
            self._errors.extend(data.decode(errors="replace").splitlines())

    def _on_event(self, event: dict[str, Any]) -> None:
        if "signal" in event:
            self._on_signal(base64.b64decode(event["signal"]))
        elif "up" in event:
            self.description = event["up"]["description"]
            if not self.up.done():
                self.up.set_result(event["up"]["port"])
        elif "down" in event:
            self._why = event["down"]["why"]
            self._fail(self._why)
        elif "datagrams" in event:
            sent, lost = event["datagrams"]
            self._datagrams.append((sent, lost))

    def _crashed(self, status: int) -> str:
        how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
        last = " / ".join(line.strip() for line in self._errors if line.strip())[-_SHOWN_CHARACTERS:]
        return f"the helper process {how}" + (f": {last}" if last else "")


def _environment() -> dict[str, str]:
    """Return this kernel's environment, changed so that the helper imports the same duetlink."""
    environment = dict(os.environ)
    root = Path(__file__).resolve().parents[4]  # the directory that contains the package `duetlink`
    if root.name not in ("site-packages", "dist-packages"):
        paths = [path for path in (environment.get("PYTHONPATH"), str(root)) if path]
        environment["PYTHONPATH"] = os.pathsep.join(paths)
    return environment
