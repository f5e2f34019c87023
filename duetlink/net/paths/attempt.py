"""One attempt to open a carried path, on one side: its helper process, and the signals between both
helpers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from duetlink.base.wire import schema_pb2 as pb
from duetlink.errors import DuetError, PathUnavailable
from duetlink.net.carrier.configuration import Configuration
from duetlink.net.carrier.drivers.driver import MAX_SIGNALS
from duetlink.net.carrier.helper.child import Child
from duetlink.net.paths.base import PathContext

ATTEMPT_TIMEOUT_S = 8.0


class Attempt:
    """Runs from construction until it fails, is lost, or is closed.

    `up` resolves to the helper's loopback port, or raises PathUnavailable. `on_over` is called once, with the
    reason for the end.
    """

    def __init__(
        self, context: PathContext, opening: pb.CarrierOpen, on_over: Callable[[Attempt, str], None]
    ) -> None:
        self._context = context
        self._opening = opening
        self._on_over = on_over
        self.child = Child(self._signalled)
        self._signals_in = 0
        self._signals_out = 0
        self._early: (
            list[bytes] | None
        ) = []  # signals of the peer that arrived before the process was started
        loop = asyncio.get_running_loop()
        self._stopped: asyncio.Future[str] = loop.create_future()
        self._by_peer = False
        self.id = opening.attempt_id
        self.up: asyncio.Future[int] = loop.create_future()
        self.task = loop.create_task(self._run())

    def signal(self, payload: bytes) -> None:
        """Pass a message of the peer's helper to the helper here."""
        self._signals_in += 1
        if self._signals_in > MAX_SIGNALS:
            self.end(f"the other side sent over {MAX_SIGNALS} signals")
        elif self._early is not None:
            self._early.append(payload)
        else:
            self.child.signal(payload)

    def end(self, why: str, *, by_peer: bool = False) -> None:
        """End the attempt for this reason; the peer is notified unless it ended the attempt (`by_peer`)."""
        if not self._stopped.done():
            self._by_peer = by_peer
            self._stopped.set_result(why)

    async def close(self) -> None:
        """End the attempt and wait until its process is gone."""
        self.end("this side has closed the path")
        await asyncio.wait((self.task,))

    async def _run(self) -> None:
        trying = asyncio.ensure_future(self._attempt())
        await asyncio.wait((trying, self._stopped), return_when=asyncio.FIRST_COMPLETED)
        if not trying.done():
            trying.cancel()
            await asyncio.wait((trying,))
        # both may have ended: retrieve the error, or asyncio prints it in the notebook
        outcome = "" if trying.cancelled() else _outcome(trying)
        why = self._stopped.result() if self._stopped.done() else outcome
        self.end(why)
        if not self.up.done():
            self.up.set_exception(PathUnavailable(why))
            self.up.exception()  # mark the error as retrieved: there may be no caller that waits for `up`
        if not self._by_peer:
            end = pb.CarrierEnd(path=self._opening.path, attempt_id=self.id, why=why)
            self._context.rpc.tell_nowait(end)
        self._on_over(self, why)
        await self.child.close()

    async def _attempt(self) -> str:
        """Start the helper and wait until a path that was up has ended; return the reason."""
        context = self._context
        async with asyncio.timeout(ATTEMPT_TIMEOUT_S):
            server = await asyncio.shield(context.server)
            if context.initiator:
                await context.rpc.call(self._opening, pb.Done)
            await self.child.start(
                Configuration(
                    rung=self._opening.path,
                    controlling=context.initiator,
                    key=self._opening.key,
                    ice_servers=context.ice_servers,
                    map_port=context.map_port,
                    flight_port=server.port,
                    flight_host=server.host_here,
                    listen=context.listen,
                )
            )
            early, self._early = self._early or [], None
            for payload in early:
                self.child.signal(payload)
            port = await asyncio.shield(self.child.up)
        self.up.set_result(port)
        return await asyncio.shield(self.child.ended)

    def _signalled(self, payload: bytes) -> None:
        self._signals_out += 1
        if self._signals_out <= MAX_SIGNALS:
            self._context.rpc.tell_nowait(
                pb.CarrierSignal(path=self._opening.path, attempt_id=self.id, payload=payload)
            )


def _outcome(trying: asyncio.Task[str]) -> str:
    """Return the reason for the end of an attempt, as text for a person."""
    error = trying.exception()
    if error is None:
        return trying.result()
    if isinstance(error, DuetError):
        return str(error)
    if isinstance(error, TimeoutError):
        return f"no route to the peer was found in {ATTEMPT_TIMEOUT_S:g} s"
    trying.get_loop().call_exception_handler(
        {"message": "an attempt at a path failed by a defect", "exception": error}
    )
    return f"a defect: {type(error).__name__}"
