"""A widget's comm that writes down what the kernel sends, and plays a page that answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from comm.base_comm import BaseComm

from duetlink_widgets.panel import Panel

WAIT_S = 60.0

Which = Callable[[dict[str, Any]], bool]
_Found = TypeVar("_Found")


@dataclass(frozen=True)
class Sent:
    """One thing that the kernel sent: `update` (of traits) or `custom` (a message)."""

    method: str
    content: dict[str, Any]
    buffers: list[bytes]
    thread: str


@dataclass
class Recording:
    """What the panel's comm sent, in order."""

    sent: list[Sent] = field(default_factory=list)
    panel: Panel = field(init=False)
    _commands: int = 0
    _grown: threading.Condition = field(default_factory=threading.Condition)

    def add(self, sent: Sent) -> None:
        with self._grown:
            self.sent.append(sent)
            self._grown.notify_all()

    def say(self, **message: Any) -> None:
        """As the page would."""
        content = {"data": {"method": "custom", "content": message}}
        self.panel.comm.handle_msg({"content": content, "buffers": []})

    def command(self, name: str, /, **args: Any) -> dict[str, Any]:
        """Click, and return the acknowledgement."""
        self._commands += 1
        command_id = f"c{self._commands}"
        self.say(kind="command", command_id=command_id, name=name, args=args)
        return self.wait("ack", lambda ack: ack["command_id"] == command_id).content

    def messages(self, kind: str) -> list[Sent]:
        return [one for one in list(self.sent) if one.method == "custom" and one.content["kind"] == kind]

    def wait(self, kind: str, which: Which = lambda content: True) -> Sent:
        """The latest message of that kind that fits, waiting for one."""
        return self._until(
            lambda: next((one for one in reversed(self.messages(kind)) if which(one.content)), None), kind
        )

    def trait(self, name: str, which: Which = lambda state: True) -> dict[str, Any]:
        """The trait once it is such."""

        def fits() -> dict[str, Any] | None:
            state = getattr(self.panel, name)
            return state if state and which(state) else None

        return self._until(fits, name)

    def _until(self, find: Callable[[], _Found | None], what: str) -> _Found:
        deadline_s = time.monotonic() + WAIT_S
        with self._grown:
            while (found := find()) is None:
                if not self._grown.wait(deadline_s - time.monotonic()):
                    raise AssertionError(f"no {what} like that; sent: {self.sent[-8:]}")
            return found


def recording_comm(recording: Recording) -> type[BaseComm]:
    """To stand in for `comm.create_comm`. Layouts of ipywidgets have comms, too: they are not recorded."""

    class Comm(BaseComm):
        def __init__(self, **options: Any) -> None:
            state = (options.get("data") or {}).get("state", {})
            self._recorded = state.get("_model_name") == "AnyModel"
            super().__init__(**options)

        def publish_msg(
            self, msg_type: str, data: Any = None, metadata: Any = None, buffers: Any = None, **keys: Any
        ) -> None:
            if not self._recorded or not data:
                return
            method = data.get("method", "open")
            content = data.get("content", data.get("state", {}))
            raw = [bytes(buffer) for buffer in buffers or []]
            recording.add(Sent(method, content, raw, threading.current_thread().name))

    return Comm
