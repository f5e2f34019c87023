"""A network in memory with a clock of its own: seconds of loss, reordering and outage take milliseconds."""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import numpy as np

from duetlink.net.tunnel.datagram_port import DatagramPort, Octets, Received
from duetlink.net.tunnel.path_model import AckSample
from duetlink.net.tunnel.transport import TunnelTransport

KEY = bytes(range(32))


class VirtualLoop(asyncio.SelectorEventLoop):
    """Time stands still while something can run, and jumps to the next timer when nothing can."""

    def __init__(self) -> None:
        super().__init__(_JumpingSelector(self))
        self.now_s = 1000.0

    def time(self) -> float:
        return self.now_s


class _JumpingSelector(selectors.SelectSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("nothing can ever happen again: a deadlock")
        if not ready and timeout:
            self._loop.now_s += timeout + 1e-9
        return ready


def run_virtually(main: Coroutine[Any, Any, Any], limit_s: float = 600.0) -> Any:
    """Run to the end, within so many seconds of the virtual clock."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(asyncio.wait_for(main, limit_s))


@dataclass
class Path:
    """One direction: a queue with a rate, then chance. A datagram takes delay_s to delay_s + jitter_s."""

    loss: float = 0.0
    duplicates: float = 0.0
    delay_s: float = 0.01
    jitter_s: float = 0.0
    mtu_bytes: int = 1500
    rate_bytes_per_s: float = 50e6
    queue_s: float = 0.1
    is_cut: bool = False
    corrupted: float = 0.0


class MemoryPort(DatagramPort):
    def __init__(self, path: Path, seed: int) -> None:
        self.path = path
        self.other: MemoryPort
        self.sent: list[bytes] = []  # all that were ever sent, for replays
        self.is_closed = False
        self._random = random.Random(seed)
        self._arrived: list[bytes] = []
        self._free_s = 0.0

    def start(
        self,
        loop: asyncio.AbstractEventLoop,
        on_readable: Callable[[], None],
        on_writable: Callable[[], None],
        on_closed: Callable[[Exception | None], None],
    ) -> None:
        self._loop = loop
        self._on_readable = on_readable
        self.on_closed = on_closed

    def receive(self) -> list[Received]:
        arrived, self._arrived = self._arrived, []
        return [matrix(arrived)] if arrived else []

    def send(self, rows: Octets) -> int:
        for row in rows:
            self._carry(row.tobytes())
        return len(rows)

    def close(self) -> None:
        self.is_closed = True

    def arrive(self, *datagrams: bytes) -> None:
        """Put datagrams into the port as if they came from the network, in one batch."""
        self._arrived += datagrams
        if not self.is_closed and hasattr(self, "_loop"):
            self._on_readable()

    def _carry(self, datagram: bytes) -> None:
        path, chance = self.path, self._random.random
        self.sent.append(datagram)
        now_s = self._loop.time()
        self._free_s = max(self._free_s, now_s) + len(datagram) / path.rate_bytes_per_s
        too_much = self._free_s - now_s > path.queue_s
        if path.is_cut or too_much or len(datagram) > path.mtu_bytes or chance() < path.loss:
            return
        if chance() < path.corrupted:
            at = self._random.randrange(32)  # the header: what the tag covers of each datagram
            datagram = (
                datagram[:at] + bytes([datagram[at] ^ 1 << self._random.randrange(8)]) + datagram[at + 1 :]
            )
        for _ in range(2 if chance() < path.duplicates else 1):
            delay_s = path.delay_s + path.jitter_s * chance()
            self._loop.call_at(self._free_s + delay_s, self.other.arrive, datagram)


def matrix(datagrams: list[bytes]) -> Received:
    stride = max(map(len, datagrams))
    rows = np.frombuffer(b"".join(datagram.ljust(stride, b"\xaa") for datagram in datagrams), np.uint8)
    return Received(rows.reshape(len(datagrams), stride), np.array([len(datagram) for datagram in datagrams]))


class FixedController:
    """So much in flight, at such a rate, whatever happens."""

    def __init__(self, *, datagram_bytes: int, now_s: float) -> None:
        self.pacing_rate_bytes_per_s = 20e6
        self.window_bytes = 400_000
        self.timeouts = 0
        self.samples: list[AckSample] = []

    def on_sent(self, now_s: float, size_bytes: int, inflight_bytes: int) -> None:
        pass

    def on_ack(self, sample: AckSample) -> None:
        self.samples.append(sample)

    def on_timeout(self, now_s: float) -> None:
        self.timeouts += 1

    def on_idle_restart(self, now_s: float) -> None:
        pass


class Endpoint(asyncio.Protocol):
    """Collects what arrives; writes what it is given as fast as the transport takes it."""

    def __init__(self, payload: bytes = b"", *, then_close: bool = False, piece_bytes: int = 40_000) -> None:
        self.received = bytearray()
        self.transport: TunnelTransport
        self.events: list[str] = []
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self.has_eof = asyncio.Event()
        self.keep_open = False
        self._unsent = memoryview(payload)
        self._piece_bytes = piece_bytes
        self._then_close = then_close
        self._may_write = True
        self._wanted: list[tuple[int, asyncio.Event]] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.events.append("made")
        self.transport = transport  # type: ignore[assignment]
        self._write()

    def _write(self) -> None:
        while self._may_write and len(self._unsent):
            piece, self._unsent = self._unsent[: self._piece_bytes], self._unsent[self._piece_bytes :]
            self.transport.write(piece)
        if not len(self._unsent) and self._then_close:
            self._then_close = False
            self.transport.close()

    def pause_writing(self) -> None:
        self._may_write = False

    def resume_writing(self) -> None:
        self._may_write = True
        self._write()

    def data_received(self, data: Any) -> None:
        self.received += data
        for size, event in self._wanted:
            if len(self.received) >= size:
                event.set()

    def eof_received(self) -> bool:
        self.events.append("eof")
        self.has_eof.set()
        return self.keep_open

    def connection_lost(self, error: Exception | None) -> None:
        self.events.append("lost")
        self.lost.set_result(error)

    async def wait_received(self, size_bytes: int) -> bytes:
        event = asyncio.Event()
        self._wanted.append((size_bytes, event))
        if len(self.received) < size_bytes:
            await event.wait()
        return bytes(self.received)


def connect(
    first: Endpoint,
    second: Endpoint,
    there: Path | None = None,
    back: Path | None = None,
    *,
    seed: int = 0,
    **options: Any,
) -> tuple[MemoryPort, MemoryPort]:
    """Two tunnels over a network in memory."""
    ports = MemoryPort(there or Path(), seed), MemoryPort(back or Path(), seed + 1)
    ports[0].other, ports[1].other = ports[1], ports[0]
    loop = asyncio.get_running_loop()
    for port, endpoint, initiator in ((ports[0], first, True), (ports[1], second, False)):
        TunnelTransport(loop, port, endpoint, key=KEY, initiator=initiator, **options)
    return ports
