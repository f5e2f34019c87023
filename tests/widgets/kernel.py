"""A real kernel with a panel in it, and a page that is none: it sends what JupyterLab's front end would."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager
from jupyter_core.utils import run_sync

WAIT_S = 60.0
run_sync(asyncio.sleep)(0)  # clients keep a loop of this thread from their first call on: not a test's own


class Kernel:
    """One kernel, a client of it, and, where the kernel has them, a subshell for comms as in JupyterLab."""

    def __init__(self) -> None:
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel()
        self.client: BlockingKernelClient = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=WAIT_S)
        self.subshell = self._create_subshell()
        self._commands = 0
        self._comm_id = ""

    @property
    def pid(self) -> int:
        provisioner: Any = self.manager.provisioner
        return int(provisioner.pid)

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    def _create_subshell(self) -> str | None:
        info = self._control("kernel_info_request", {})
        if "kernel subshells" not in info.get("supported_features", []):
            return None
        return str(self._control("create_subshell_request", {})["subshell_id"])

    def _control(self, kind: str, content: dict[str, Any]) -> dict[str, Any]:
        message = self.client.session.msg(kind, content)
        self.client.control_channel.send(message)
        while True:
            reply = self.client.control_channel.get_msg(timeout=WAIT_S)
            if reply["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                return dict(reply["content"])

    def run(self, code: str) -> str:
        """Run a cell and return what it printed. Raises AssertionError where it failed."""
        printed: list[str] = []

        def hook(message: dict[str, Any]) -> None:
            self._note(message)
            if message["header"]["msg_type"] == "stream":
                printed.append(message["content"]["text"])

        reply = self.client.execute_interactive(code, timeout=WAIT_S, output_hook=hook, store_history=False)
        assert reply["content"]["status"] == "ok", (reply["content"], printed)
        return "".join(printed)

    def begin(self, code: str) -> str:
        """Begin a cell, and return the number of its message once it runs."""
        number = str(self.client.execute(code, store_history=False))
        while True:
            message = self._iopub(WAIT_S)
            if (
                message["header"]["msg_type"] == "execute_input"
                and message["parent_header"]["msg_id"] == number
            ):
                return number

    def ended(self, number: str) -> bool:
        """Whether a cell that was begun has ended; asks once, and does not wait."""
        while self.client.shell_channel.msg_ready():
            reply = self.client.shell_channel.get_msg(timeout=1)
            if reply["parent_header"].get("msg_id") == number:
                return True
        return False

    def wait_ended(self, number: str) -> None:
        while self.client.shell_channel.get_msg(timeout=WAIT_S)["parent_header"].get("msg_id") != number:
            pass

    def _iopub(self, timeout_s: float) -> dict[str, Any]:
        message: dict[str, Any] = self.client.iopub_channel.get_msg(timeout=timeout_s)
        self._note(message)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        """The panel opens a comm of its own; remember it."""
        if message["header"]["msg_type"] == "comm_open":
            state = message["content"]["data"].get("state", {})
            if state.get("_anywidget_id", "").endswith(".Panel"):
                self._comm_id = message["content"]["comm_id"]

    def say(self, content: dict[str, Any]) -> None:
        """What the page says to the panel, on the comm's subshell."""
        message = self.client.session.msg(
            "comm_msg", {"comm_id": self._comm_id, "data": {"method": "custom", "content": content}}
        )
        if self.subshell is not None:
            message["header"]["subshell_id"] = self.subshell
        self.client.shell_channel.send(message)

    def click(self, name: str, **args: Any) -> tuple[dict[str, Any], float]:
        """One command; returns its acknowledgement and how long it took, in seconds."""
        self._commands += 1
        command_id = f"click{self._commands}"
        start_s = time.perf_counter()
        self.say({"kind": "command", "command_id": command_id, "name": name, "args": args})
        while True:
            said = self.hear()
            if said.get("kind") == "ack" and said.get("command_id") == command_id:
                return said, time.perf_counter() - start_s

    def hear(self) -> dict[str, Any]:
        """The next thing that the panel says; a change of traits is `{"traits": ...}`."""
        while True:
            message = self._iopub(WAIT_S)
            if message["header"]["msg_type"] == "comm_msg" and message["content"]["comm_id"] == self._comm_id:
                data = message["content"]["data"]
                return {"traits": data["state"]} if data["method"] == "update" else dict(data["content"])


def pair() -> tuple[Kernel, Kernel]:
    """The owner's and the scientist's kernel, linked, each with a panel that a page has on its screen."""
    owner, scientist = Kernel(), Kernel()
    code = owner.run("import duetlink; duet = duetlink.launch(name='Olga')\nprint(duet.code)").split()[-1]
    scientist.run(f"import duetlink; duet = duetlink.join({code!r}, name='Sven'); duet.panel()")
    owner.run("_ = duet.wait_connected(30)")
    for kernel in (owner, scientist):
        kernel.say({"kind": "hello", "schema": 1})
        kernel.say({"kind": "visible", "page": "test", "on": True})
    return owner, scientist
