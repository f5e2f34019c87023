"""The one endpoint of a process, with the loop that it runs on: from the first user to the last."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from duetlink.base.runtime.at_exit import open_here
from duetlink.base.runtime.forks import in_child
from duetlink.base.runtime.loop import LoopShare, LoopThread
from duetlink.net.link.endpoint import Endpoint
from duetlink.net.signaling.hosting import Hosting


@dataclass(frozen=True, slots=True)
class EndpointUse:
    """What one user has of it. Stopping `thread` is the end of the use."""

    thread: LoopThread
    endpoint: Endpoint
    hosting: Hosting


class SharedEndpoint:
    """Any thread but the loop's own may call."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._thread: LoopThread | None = None
        self._endpoint: Endpoint | None = None
        self._hosting = Hosting()

    def use(self) -> EndpointUse:
        """Begin to use it."""
        with self._lock:
            in_child(self._forget)
            if self._thread is None or self._endpoint is None:
                open_here.add_last(self._end)
                thread = LoopThread()
                try:
                    self._endpoint = thread.run(_make())
                except BaseException:
                    thread.stop()
                    raise
                self._thread, self._hosting = thread, Hosting()
            self._users += 1
            return EndpointUse(LoopShare(self._thread, self._leave), self._endpoint, self._hosting)

    def _leave(self) -> None:
        with self._lock:  # whoever wants one now waits, and gets a new one
            self._users -= 1
            if not self._users:
                self._free()

    def _end(self) -> None:
        """The interpreter ends, and somebody may be about to open or to join something."""
        with self._lock:
            self._free()

    def _free(self) -> None:
        thread, endpoint = self._thread, self._endpoint
        if thread is None or endpoint is None:
            return
        self._thread = self._endpoint = None
        try:
            thread.run(endpoint.close())
        finally:
            thread.stop()


async def _make() -> Endpoint:
    return Endpoint()


shared_endpoint = SharedEndpoint()  # of all duets, groups and torch jobs of this process
