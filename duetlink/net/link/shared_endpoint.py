"""The one endpoint of a process and its loop thread, shared by all users and freed with the last one."""

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
    """One user's share. Stopping `thread` ends the use."""

    thread: LoopThread
    endpoint: Endpoint
    hosting: Hosting


class SharedEndpoint:
    """Counts the users of the endpoint. Call it from any thread except the loop's own."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._thread: LoopThread | None = None
        self._endpoint: Endpoint | None = None
        self._hosting = Hosting()

    def use(self) -> EndpointUse:
        """Begin a use; the first one starts the loop thread and makes the endpoint."""
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
        with self._lock:  # a concurrent `use` waits for the lock, and then makes a new endpoint
            self._users -= 1
            if not self._users:
                self._free()

    def _end(self) -> None:
        """Free the endpoint when the interpreter exits.

        Another thread may be calling `use` at that moment.
        """
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
