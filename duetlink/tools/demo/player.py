"""Runs one notebook in one Jupyter kernel, cell by cell, like a person who presses Shift-Enter."""

from __future__ import annotations

import ast
import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from queue import Empty
from typing import Any

import nbformat
from jupyter_client.channels import AsyncZMQSocketChannel
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError

from duetlink.tools.demo.errors import CellFailed, DemoFailed

_READY_TIMEOUT_S = 60.0
_LOOK_AGAIN_S = 0.5

# called before a cell runs; it may wait, and may change the cell's source
Cue = Callable[[Any], Awaitable[None]]


@dataclass(slots=True)
class Step:
    """The code cells under one heading."""

    title: str
    cells: int = 0
    done: int = 0
    started_s: float | None = None
    duration_s: float | None = None
    said: str = ""
    """the last line that its cells printed"""


class _ShellChannel(AsyncZMQSocketChannel):
    """A shell channel on which a reply is found although a widget's message has been sent meanwhile.

    A ZeroMQ socket signals a message only once, and a send in between clears that signal for the waiting
    receiver (nbclient issue 312). So this class looks at the socket again every half second.
    """

    async def get_msg(self, timeout: float | None = None) -> dict[str, Any]:  # type: ignore[override]
        """Return the next message. Without a timeout it waits for ever; with one it may raise Empty."""
        while True:
            try:
                return await super().get_msg(_LOOK_AGAIN_S if timeout is None else timeout)
            except Empty:
                if timeout is not None:
                    raise


class Player:
    """One notebook, its kernel, and how far it has come. `start`, `play`, `stop`, `save`."""

    def __init__(self, path: Path, on_step: Callable[[Player, Step], None]) -> None:
        self.path = path
        self.role = path.stem
        self.notebook: Any = nbformat.read(path, as_version=4)
        self.steps: list[Step] = []
        self.cues: dict[str, Cue] = {}
        self.current: Step | None = None
        self.failed = False
        self._on_step = on_step
        self._step_of_cell: dict[int, Step] = {}
        self._manager = AsyncKernelManager(
            kernel_name="python3", kernel_spec_manager=_ThisPython(), shutdown_wait_time=5.0
        )
        self._client: Any = None
        self._find_steps()

    def _find_steps(self) -> None:
        title = self.role
        for index, cell in enumerate(self.notebook.cells):
            headings = [line for line in cell.source.splitlines() if line.startswith("#")]
            if cell.cell_type == "markdown" and headings:
                title = headings[-1].lstrip("# ")
            elif cell.cell_type == "code" and cell.source.strip():
                if not self.steps or self.steps[-1].title != title:
                    self.steps.append(Step(title))
                self.steps[-1].cells += 1
                self._step_of_cell[index] = self.steps[-1]

    async def start(self, environment: Mapping[str, str]) -> None:
        """Start the kernel. Raises DemoFailed if it does not come up."""
        await self._manager.start_kernel(
            env=dict(os.environ) | dict(environment),
            cwd=str(self.path.parent),
            # keeps the output of native libraries on the kernel's stderr off the demo's screen
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        client = self._manager.client()
        client.shell_channel_class = _ShellChannel
        client.start_channels()
        self._client = client
        try:
            await client.wait_for_ready(timeout=_READY_TIMEOUT_S)
        except RuntimeError as error:
            raise DemoFailed(f"the kernel for {self.path.name} did not start: {error}") from None

    async def play(self) -> None:
        """Run every cell. Raises CellFailed at the first that fails, DemoFailed if the kernel dies."""
        runner = NotebookClient(self.notebook, km=self._manager, timeout=None, coalesce_streams=True)
        runner.kc = self._client
        for index, cell in enumerate(self.notebook.cells):
            step = self._step_of_cell.get(index)
            if step is None:
                continue
            self._begin(step)
            for tag in cell.metadata.get("tags", ()):
                if tag in self.cues:
                    await self.cues[tag](cell)
            try:
                await runner.async_execute_cell(cell, index)
            except CellExecutionError as error:
                self.failed = True
                raise CellFailed(
                    f"{self.path.name}, {step.title!r}: {error.ename}: {error.evalue}", _traceback(cell)
                ) from None
            except DeadKernelError:
                self.failed = True
                raise DemoFailed(f"{self.path.name}, {step.title!r}: the kernel died") from None
            self._end_of_cell(step, cell)
        self.current = None

    async def stop(self) -> None:
        """Stop the kernel, which closes its duet first. Safe to call twice."""
        if self._client is not None:
            self._client.stop_channels()
            self._client = None
        if self._manager.has_kernel:
            await self._manager.shutdown_kernel(now=False)

    def save(self, directory: Path) -> Path:
        """Write the notebook as it is now, with its outputs."""
        path = directory / self.path.name
        nbformat.write(self.notebook, path)
        return path

    def tagged(self, tag: str) -> Any:
        """Return the cell with a tag. Raises DemoFailed if there is none."""
        for cell in self.notebook.cells:
            if tag in cell.metadata.get("tags", ()):
                return cell
        raise DemoFailed(f"{self.path} has no cell tagged {tag!r}, which the demo needs")

    def has(self, tag: str) -> bool:
        return any(tag in cell.metadata.get("tags", ()) for cell in self.notebook.cells)

    async def value(self, expression: str) -> str:
        """Evaluate `str(expression)` in the kernel, between two cells, and return the text.

        Raises:
            DemoFailed: the expression raised an error.
        """
        message = self._client.execute("", silent=True, user_expressions={"value": f"str({expression})"})
        while True:
            reply = await self._client.get_shell_msg(timeout=_READY_TIMEOUT_S)
            if reply["parent_header"].get("msg_id") == message:
                break
        found = reply["content"].get("user_expressions", {}).get("value", {})
        if found.get("status") != "ok":
            raise DemoFailed(f"{self.path.name} has no {expression} at this place: {found.get('evalue', '')}")
        return str(ast.literal_eval(found["data"]["text/plain"]))

    def _begin(self, step: Step) -> None:
        if self.current is not step:
            step.started_s = time.monotonic()
            self.current = step

    def _end_of_cell(self, step: Step, cell: Any) -> None:
        printed = "".join(
            output.text
            for output in cell.outputs
            if output.output_type == "stream" and output.name == "stdout"
        )
        if printed.strip():
            step.said = printed.strip().splitlines()[-1]
        step.done += 1
        if step.done == step.cells and step.started_s is not None:
            step.duration_s = time.monotonic() - step.started_s
            self._on_step(self, step)


def _traceback(cell: Any) -> str:
    return "\n".join("\n".join(output.traceback) for output in cell.outputs if output.output_type == "error")


class _ThisPython(KernelSpecManager):
    """Runs kernels with this interpreter, whatever kernels the user has installed under the usual name."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=argv, display_name="Python 3", language="python")
