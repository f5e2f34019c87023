"""Runs a node on a post: a thread that sends, receives, and ends rounds in time.

It also runs between rounds: it takes datagrams of neighbours that are ahead, and sends lost chunks again.
"""

from __future__ import annotations

import contextlib
import threading
import time
from concurrent.futures import Future

from duetlink.errors import DuetError, LinkClosed, OperationMismatch, RemoteProtocolError
from duetlink_gossip.base import Mixed, Node
from duetlink_gossip.chunks import Floats
from duetlink_gossip.post import Post

_IDLE_S = 1.0


class Courier:
    """Runs one member's node in a thread. Only one thread at a time may call `mix`."""

    def __init__(self, node: Node, post: Post) -> None:
        self.node = node
        self._post = post
        self._wanted: tuple[Floats, Future[tuple[Floats, Mixed]]] | None = None
        self._running: Future[tuple[Floats, Mixed]] | None = None
        self._faults: list[DuetError] = []
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="duetlink-gossip", daemon=True)
        self._thread.start()

    def mix(self, vector: Floats) -> tuple[Floats, Mixed]:
        """Make one round with this model; return the averaged one, and the outcome.

        Raises:
            UnsupportedValue: the model is not finite, or of another length than before.
            LinkClosed: this was closed.
        """
        future: Future[tuple[Floats, Mixed]] = Future()
        if self._closed:
            raise LinkClosed("the gossip is closed; make another one")
        self._wanted = (vector, future)
        self._post.wake()
        return future.result()

    def faults(self) -> list[DuetError]:
        """Return and clear the errors for which members were excluded."""
        found, self._faults = self._faults, []
        return found

    def close(self) -> None:
        """Stop the thread, and close the post. Safe to call twice."""
        self._closed = True
        self._post.wake()
        self._thread.join(10)
        self._post.close()

    def _run(self) -> None:
        try:
            while not self._closed:
                self._turn()
        except BaseException as error:
            self._end(error)
            raise
        self._end(LinkClosed("the gossip was closed in the middle of a round"))

    def _turn(self) -> None:
        node, now_s = self.node, time.monotonic()
        if not node.active and self._wanted is not None:
            (vector, self._running), self._wanted = self._wanted, None
            try:
                node.start(vector, now_s)
            except DuetError as error:
                self._running.set_exception(error)
                self._running = None
        for to, payload in self._post.send(list(node.due(now_s))):
            node.held(to, payload, now_s)
        if node.active and node.is_over(now_s):
            self._finish(now_s)
        wait_s = max(0.0, node.wake_s(now_s) - time.monotonic())
        datagrams = self._post.receive(min(wait_s, _IDLE_S) if self._wanted is None else 0.0)
        arrived_s = time.monotonic()
        for of, payload in datagrams:
            try:
                node.take(of, payload, arrived_s)
            except (OperationMismatch, RemoteProtocolError) as error:
                node.exclude(of)
                self._faults.append(error)

    def _finish(self, now_s: float) -> None:
        assert self._running is not None
        running, self._running = self._running, None
        running.set_result(self.node.finish(now_s))

    def _end(self, error: BaseException) -> None:
        self._closed = True
        for future in (self._running, self._wanted[1] if self._wanted is not None else None):
            if future is not None:
                with contextlib.suppress(Exception):
                    future.set_exception(error)
