"""Connections that may lead to the peer, and the choice of one of them by both sides.

Any program can connect to a listener. A connection that does not prove in time that it is the peer's is
dropped. If too many strangers wait, a new one displaces the oldest of them, but never a connection from an
address at which the peer is expected.
"""

from __future__ import annotations

import asyncio
import contextlib

from duetlink.net.carrier.drivers.hello import (
    EXPECTED_TIMEOUT_S,
    HELLO_TIMEOUT_S,
    PROOF_BYTES,
    CarrierHello,
    exchange_proofs,
)
from duetlink.net.carrier.drivers.wire import TcpConnection

MAX_STRANGERS = 8  # waiting at the same time
MAX_EXPECTED = 32  # waiting at the same time, from addresses at which the peer is expected
MAX_ENTRIES = 1000  # of strangers, in one attempt


class Race:
    """All connections of one attempt. `winner` resolves to the chosen connection."""

    def __init__(self, key: bytes, path_name: str, *, controlling: bool) -> None:
        self.winner: asyncio.Future[TcpConnection] = asyncio.get_running_loop().create_future()
        self._key = key
        self._path_name = path_name
        self._controlling = controlling
        self._expected_hosts: set[str] = set()
        self._waiting: dict[asyncio.Task[None], bool] = {}  # oldest first; True if from an expected address
        self._strangers = 0

    def expect(self, host: str) -> None:
        """Expect the peer from this address."""
        self._expected_hosts.add(host)

    def enter(self, wire: TcpConnection) -> None:
        """Check if this connection leads to the peer. The race owns it from here on."""
        expected = wire.peer[0] in self._expected_hosts
        timeout_s = EXPECTED_TIMEOUT_S if expected else HELLO_TIMEOUT_S
        task = asyncio.ensure_future(self._run(wire, timeout_s))
        task.add_done_callback(lambda task: self._left(task, wire))
        self._waiting[task] = expected
        if not expected:
            self._strangers += 1
        if not expected and self._strangers > MAX_ENTRIES:
            task.cancel()
        else:
            self._displace(expected, MAX_EXPECTED if expected else MAX_STRANGERS)

    async def deserted(self) -> None:
        """Wait until no connection from an expected address is left."""
        while expected := [task for task, is_expected in self._waiting.items() if is_expected]:
            await asyncio.wait(expected)

    async def close(self, keep: TcpConnection | None) -> None:
        if self.winner.done() and not self.winner.cancelled() and self.winner.result() is not keep:
            self.winner.result().abort()
        self.winner.cancel()
        tasks = list(self._waiting)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _displace(self, expected: bool, most: int) -> None:
        alike = [task for task, other in self._waiting.items() if other == expected]
        for task in alike[: max(0, len(alike) - most)]:
            task.cancel()

    async def _run(self, wire: TcpConnection, timeout_s: float) -> None:
        hello = CarrierHello(self._key, self._path_name, controlling=self._controlling)
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(timeout_s):
                await exchange_proofs(wire, hello)
            if not self._controlling:
                # wait once more: the other side may have to finish other connections before it chooses
                async with asyncio.timeout(timeout_s):
                    hello.check_go(await wire.read(PROOF_BYTES))
            if not self.winner.done():
                self.winner.set_result(wire)
                if self._controlling:
                    wire.write(hello.go)

    def _left(self, task: asyncio.Task[None], wire: TcpConnection) -> None:
        # a callback, because a task that is cancelled before its first step runs no `finally`
        del self._waiting[task]
        won = self.winner.done() and not self.winner.cancelled() and self.winner.result() is wire
        if not won:
            wire.reset()
