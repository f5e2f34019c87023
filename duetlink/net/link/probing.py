"""Measuring the speed of a path by sending random bytes over it for a moment."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time

from duetlink.base.wire import schema_pb2 as pb
from duetlink.net.flight.body import Outgoing, ReceiveBuffer
from duetlink.net.link.exports import Exports
from duetlink.net.link.traffic import Traffic
from duetlink.net.paths.base import Path
from duetlink.net.paths.path_selector import Speed
from duetlink.net.peer.rpc import Rpc

PROBE_BYTES = 16 * 1024 * 1024

# Seconds from the first bytes on: during SETTLE_S congestion control finds its rate, then PROBE_TIME_S is
# measured.
SETTLE_S = 0.15
PROBE_TIME_S = 0.25

# So small that even a slow path delivers several in that time. They are not compressed.
_PIECE_BYTES = 64 * 1024

_PATIENCE_S = 5.0


class Prober:
    """Measures paths, and answers the peer's measurements. Methods belong to the loop thread."""

    def __init__(self, rpc: Rpc, exports: Exports, traffic: Traffic) -> None:
        self._rpc = rpc
        self._exports = exports
        self._traffic = traffic
        self._body: asyncio.Future[Outgoing] | None = None
        rpc.handle(pb.ProbeQuery, self._offer)

    async def measure(self, path: Path) -> Speed | None:
        """Return how fast bytes from the peer come over `path`; None if too few came.

        Raises:
            DuetError: the path broke, or the peer does not allow it.
        """
        offer = await self._rpc.call(pb.ProbeQuery(path=path.name), pb.TransferOffer)
        arrivals: list[tuple[float, int]] = []  # time, and bytes until then
        alone = not self._traffic.busy

        def count(size_bytes: int, wire_bytes: int) -> None:  # on the path's thread
            now_s = time.monotonic()
            arrivals.append((now_s, receive_buffer.position_bytes))
            if now_s - arrivals[0][0] > SETTLE_S + PROBE_TIME_S:
                receive_buffer.stop()

        size_bytes = min(offer.size_bytes, PROBE_BYTES)
        receive_buffer = ReceiveBuffer(size_bytes, count)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE_S):
                    await path.fetch(offer.ticket, receive_buffer)
        finally:
            receive_buffer.discard()  # break the reference cycle with `count`
            self._rpc.tell_nowait(pb.TransferEnd(transfer_id=offer.transfer_id, path=path.name))
        speed = _speed(arrivals, alone and not self._traffic.busy)
        # A path that has carried all of it within 0.4 s is fast, and busy processors may have held it: the
        # first transfer measures it better.
        whole = bool(arrivals) and arrivals[-1][1] >= size_bytes
        if speed is not None and speed.alone and not whole:
            self._rpc.tell_nowait(pb.PathSpeed(path=path.name, bytes_per_s=speed.bytes_per_s))
        return speed

    async def _offer(self, query: pb.ProbeQuery) -> pb.TransferOffer:
        if self._body is None:
            # random, so that no device on the way can compress it
            piece = memoryview(secrets.token_bytes(_PIECE_BYTES))
            segments = [piece] * (PROBE_BYTES // _PIECE_BYTES)
            self._body = asyncio.ensure_future(asyncio.to_thread(Outgoing, segments, PROBE_BYTES))
        return await self._exports.offer_probe(await asyncio.shield(self._body), query.path)


def _speed(arrivals: list[tuple[float, int]], alone: bool) -> Speed | None:
    """Return the rate of the bytes that came after the path had settled.

    If the transfer was over before, the second half of its bytes is used: the first half shows how congestion
    control found its rate, and what a token bucket had saved up. `alone`: no other transfer was running.
    """
    if not arrivals:
        return None
    (first_s, _), (_, all_bytes) = arrivals[0], arrivals[-1]
    settled = [arrival for arrival in arrivals if arrival[0] - first_s >= SETTLE_S]
    later = [arrival for arrival in arrivals if 2 * arrival[1] >= all_bytes]
    for counted in filter(None, (settled, later, arrivals)):
        (begin_s, begin_bytes), (end_s, end_bytes) = counted[0], counted[-1]
        if end_s > begin_s:
            return Speed((end_bytes - begin_bytes) / (end_s - begin_s), alone)
    return None
