"""The helper process as its kernel sees it: started, talked to, ended within a bounded time."""

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
_KEPT_LINES = 20  # of standard error
_SHOWN_CHARACTERS = 600

_LOSS_SECONDS = 5  # they are told once a second
_FEW_DATAGRAMS = 50  # of which a share would be chance


class Child:
    """One helper. Methods belong to the loop that started it.

    `up` is done with the loopback port by which Flight reaches the peer, or raises PathUnavailable; `ended`
    with the reason, in words, once the process is gone.
    """

    def __init__(self, on_signal: Callable[[bytes], None]) -> None:
        loop = asyncio.get_running_loop()
        self.up: asyncio.Future[int] = loop.create_future()
        self.ended: asyncio.Future[str] = loop.create_future()
        self.description = ""
        self._datagrams: deque[tuple[int, int]] = deque(maxlen=_LOSS_SECONDS + 1)  # sent and lost until then
        self._on_signal = on_signal
        self._process: Process | None = None
        self._why = ""
        self._errors: deque[str] = deque(maxlen=_KEPT_LINES)
        self._watching: asyncio.Task[None] | None = None

    @property
    def loss(self) -> float | None:
        """The share of what this side has sent in the last seconds that was lost; None where few was sent, or
        losses are the system's affair.
        """
        if not self._datagrams:
            return None
        (sent_before, lost_before), (sent, lost) = self._datagrams[0], self._datagrams[-1]
        if sent - sent_before < _FEW_DATAGRAMS:
            return None
        return min(1.0, (lost - lost_before) / (sent - sent_before))

    async def start(self, configuration: Configuration) -> None:
        """Start the process. Raises PathUnavailable where the system does not let it."""
        if not sys.executable:
            raise PathUnavailable("this interpreter does not know its own program file: no helper can start")
        # out of the reach of the notebook's Ctrl-C
        apart: dict[str, Any] = (
            {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
            if sys.platform == "win32"
            else {"start_new_session": True}
        )
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # the notebook's directory may hold files named like modules
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
        """Hand over what the peer's helper says."""
        self._write(json.dumps({"signal": base64.b64encode(payload).decode()}))

    async def close(self) -> None:
        """End the process; it is gone when this returns, within a few seconds. Safe to call twice."""
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
        # what is written is bounded by the number and size of signals: nothing waits for room
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
            except ValueError:  # printed by something that a site has added to its interpreter
                self._errors.append(line.decode(errors="replace"))
            else:
                self._heard(event)
        status = await process.wait()
        await collecting
        why = self._why or self._crashed(status)
        self._fail(why)
        self.ended.set_result(why)

    def _fail(self, why: str) -> None:
        if not self.up.done():
            self.up.set_exception(PathUnavailable(why))
            self.up.exception()  # it may be that nobody waits for it

    async def _collect_errors(self, stderr: asyncio.StreamReader) -> None:
        while data := await stderr.read(4096):
            self._errors.extend(data.decode(errors="replace").splitlines())

    def _heard(self, event: dict[str, Any]) -> None:
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
    """This kernel's environment, in which the helper finds the same duetlink, wherever that is."""
    environment = dict(os.environ)
    root = Path(__file__).resolve().parents[4]  # where the package `duetlink` is
    if root.name not in ("site-packages", "dist-packages"):
        paths = [path for path in (environment.get("PYTHONPATH"), str(root)) if path]
        environment["PYTHONPATH"] = os.pathsep.join(paths)
    return environment
