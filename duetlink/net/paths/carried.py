"""Paths over which helper processes, one on each side, carry Flight's connections.

The initiator of the link begins an attempt. `open` on the other side joins a running attempt, or asks the
initiator for one. One attempt serves both directions. It ends on both sides together, and the next one starts
from scratch.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import ClassVar

from duetlink.base.wire import schema_pb2 as pb
from duetlink.errors import DuetError, PathUnavailable
from duetlink.net.paths.attempt import Attempt
from duetlink.net.paths.base import PathContext
from duetlink.net.paths.carrier_commands import ATTEMPT_ID_BYTES, KEY_BYTES, Carried
from duetlink.net.paths.flight_path import FlightPath
from duetlink.net.stun.lending import has_turn

WANTED_TIMEOUT_S = 5.0
PROBE_TIMEOUT_S = 5.0

# limits how often a peer can make this side start a process
MIN_INTERVAL_S = 0.25


class CarriedPath(FlightPath, Carried):
    """Flight through a pair of helper processes."""

    costly: ClassVar[bool] = True

    def __init__(self, context: PathContext) -> None:
        super().__init__(context)
        self._attempt: Attempt | None = None
        self._begun = asyncio.Event()  # the other side has begun an attempt, or was refused one
        self._refused = ""
        self._begun_s = float("-inf")
        self._last_why = ""  # why the last attempt ended
        self._ending: set[asyncio.Task[None]] = set()
        self._closed = False
        self._proven = False  # the peer's Flight server was reached, and the attempt has not ended since
        self._broken: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        context.carriers.serve(self.name, self)

    async def open(self) -> None:
        attempt = await self._join()
        port = await asyncio.shield(attempt.up)
        if self._attempt is not attempt:
            raise PathUnavailable("the path was lost while it was opened")
        if self._client is None:
            self._client = self._client_at("127.0.0.1", port)
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._context.waiting, self._client.probe, PROBE_TIMEOUT_S)
        except PathUnavailable as error:
            attempt.end(str(error))
            raise
        if self._attempt is not attempt:
            raise PathUnavailable("the path was lost while it was opened")
        self._proven = True
        self._broken = loop.create_future()

    async def wait_down(self) -> Exception:
        return await asyncio.shield(self._broken)

    async def close(self) -> None:
        self._closed, self._proven = True, False
        if self._attempt is not None:
            self._attempt.end("this side has closed the path")
        if self._ending:
            await asyncio.wait(self._ending)
        await super().close()

    @property
    def loss(self) -> float | None:
        attempt = self._attempt  # read once: this is called on any thread
        return attempt.child.loss if attempt is not None else None

    @property
    def description(self) -> str:
        """Text for a person that says how the peer is reached; empty while it is not."""
        return self._attempt.child.description if self._attempt is not None else ""

    def refusal(self, peer_has_relay: bool) -> str:
        """Return why an attempt cannot succeed, given that the peer has a relay or not; empty if it may."""
        return ""

    # -- attempts --------------------------------------------------------------------------------------------

    async def _join(self) -> Attempt:
        """Return the running attempt, or begin or request one."""
        if self._attempt is None and self._context.initiator:
            self._begin(self._opening())
        elif self._attempt is None:
            self._begun.clear()
            self._refused = ""
            try:
                await self._context.rpc.call(pb.CarrierWanted(path=self.name), pb.Done)
                async with asyncio.timeout(WANTED_TIMEOUT_S):
                    await self._begun.wait()
            except TimeoutError:
                raise PathUnavailable(f"the other side did not begin within {WANTED_TIMEOUT_S:g} s") from None
            except DuetError as error:
                raise PathUnavailable(str(error)) from None
        if self._attempt is None:
            raise PathUnavailable(self._refused or "the attempt was over before it was joined")
        return self._attempt

    def _begin(self, opening: pb.CarrierOpen) -> None:
        if self._closed:
            raise PathUnavailable("the link is closing")
        self._begun_s = asyncio.get_running_loop().time()
        self._last_why = ""
        self._attempt = Attempt(self._context, opening, self._attempt_over)
        self._ending.add(self._attempt.task)
        self._attempt.task.add_done_callback(self._ending.discard)
        self._begun.set()

    def _attempt_over(self, attempt: Attempt, why: str) -> None:
        if self._attempt is not attempt:
            return
        self._attempt = None
        self._last_why = why
        if self._client is not None:
            client, self._client = self._client, None
            client.close()
        if self._proven:
            self._proven = False
            self._broken.set_result(PathUnavailable(why))

    def _opening(self) -> pb.CarrierOpen:
        return pb.CarrierOpen(
            path=self.name,
            attempt_id=secrets.token_bytes(ATTEMPT_ID_BYTES),
            key=secrets.token_bytes(KEY_BYTES),
            has_relay=self.has_relay(),
        )

    def has_relay(self) -> bool:
        return has_turn(self._context.ice_servers)

    # -- messages of the peer --------------------------------------------------------------------------------

    def peer_opens(self, opening: pb.CarrierOpen) -> None:
        if self._context.initiator:
            raise PathUnavailable("attempts are begun by the other side")
        if why := self.refusal(opening.has_relay):
            self._refused = why
            self._begun.set()
            raise PathUnavailable(why)
        self._check_interval()
        if (before := self._attempt) is not None:
            before.end("the other side has begun a new attempt", by_peer=True)
            self._attempt_over(before, "the other side has begun a new attempt")
        self._begin(opening)

    def peer_wants(self) -> None:
        if not self._context.initiator:
            raise PathUnavailable("attempts are begun by the other side")
        if self._attempt is None:
            self._check_interval()
            self._begin(self._opening())

    def peer_signals(self, attempt_id: bytes, payload: bytes) -> None:
        if self._attempt is not None and self._attempt.id == attempt_id:
            self._attempt.signal(payload)

    def peer_ended(self, attempt_id: bytes, why: str) -> None:
        if self._attempt is not None and self._attempt.id == attempt_id:
            self._attempt.end(f"the other side ended it: {why}", by_peer=True)

    def _check_interval(self) -> None:
        if asyncio.get_running_loop().time() - self._begun_s < MIN_INTERVAL_S:
            raise PathUnavailable(self._last_why or "it was tried a moment ago")


class PunchedPath(CarriedPath):
    """Flight over a TCP connection through both NATs, opened from both sides at the same time."""

    name: ClassVar[str] = "punched"


class UdpPath(CarriedPath):
    """Flight through a tunnel over the UDP route that ICE finds; works directly through most pairs of
    NATs.
    """

    name: ClassVar[str] = "udp"


class RelayPath(CarriedPath):
    """Flight through a tunnel over a TURN server of either side (RFC 8656), which sees only ciphertext."""

    name: ClassVar[str] = "relay"

    def refusal(self, peer_has_relay: bool) -> str:
        if peer_has_relay or self.has_relay():
            return ""
        return (
            "neither side has a TURN server; set one in DUETLINK_ICE_SERVERS, as in "
            '[{"urls": "turn:turn.example.org", "username": "u", "credential": "p"}]'
        )
