"""One life of the dual channel: introduced, connected, closed; everything it owns goes with it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from google.protobuf.message import Message

from duetlink.base.runtime import cpu, machine
from duetlink.base.wire import schema_pb2 as pb
from duetlink.base.wire.text import harmless
from duetlink.data.codecs import codecs
from duetlink.errors import DuetError, LinkClosed, PathUnavailable, RemoteProtocolError
from duetlink.net.flight.certificate import Identity, check_certificate, create_identity
from duetlink.net.flight.receiving import Decoding
from duetlink.net.flight.server import FlightServer
from duetlink.net.flight.tickets import TicketTable
from duetlink.net.link.agreement import Agreement
from duetlink.net.link.exports import Exports
from duetlink.net.link.imports import Imports
from duetlink.net.link.lifeline import Lifeline, Reconnect
from duetlink.net.link.probing import Prober
from duetlink.net.link.traffic import Statistics, Traffic
from duetlink.net.link.tuning import Tuning
from duetlink.net.paths.base import Path, PathContext
from duetlink.net.paths.carried import CarriedPath
from duetlink.net.paths.carrier_desk import CarrierDesk
from duetlink.net.paths.channel import ChannelPath
from duetlink.net.paths.ladder import Ladder
from duetlink.net.paths.local import LocalPath
from duetlink.net.paths.punched import PunchedPath
from duetlink.net.paths.relay import RelayPath
from duetlink.net.paths.tcp import TcpPath
from duetlink.net.paths.udp import UdpPath
from duetlink.net.peer.connection import PeerConnection
from duetlink.net.peer.rpc import Rpc
from duetlink.settings import Settings

_IO_THREADS = 8
_MOST_CODEC_THREADS = 4
_BYE_TIMEOUT_S = 1.0

_PATHS: dict[str, type[LocalPath | TcpPath | CarriedPath | ChannelPath]] = {
    path.name: path for path in (LocalPath, TcpPath, PunchedPath, UdpPath, RelayPath, ChannelPath)
}


class Link:
    """A connected link to one peer. Create with `connect` on the loop thread, where its methods belong."""

    def __init__(self, connection: PeerConnection, settings: Settings) -> None:
        self._lifeline = Lifeline(connection, settings)
        self._settings = settings
        self._io = ThreadPoolExecutor(_IO_THREADS, thread_name_prefix="duetlink-io")
        workers = min(cpu.count(), _MOST_CODEC_THREADS)
        self._codec_pool = ThreadPoolExecutor(workers, thread_name_prefix="duetlink-codec")
        self._decoding = Decoding(self._codec_pool, workers)
        self._identity: Identity = create_identity()
        self._tickets = TicketTable(time.monotonic)
        self._server: asyncio.Future[FlightServer] = asyncio.get_running_loop().create_future()
        self._introduced: asyncio.Future[pb.Introduction] = asyncio.get_running_loop().create_future()
        self._ended: asyncio.Future[LinkClosed] = asyncio.get_running_loop().create_future()
        self._tasks: list[asyncio.Task[None]] = []
        self._closing: asyncio.Task[None] | None = None
        self.traffic = Traffic()
        self.peer_name = ""
        self.on_closed: Callable[[LinkClosed], None] = lambda error: None
        self.on_change: Callable[[], None] = lambda: None  # of what a person would want to see
        # to be set before `start`, where there is a way to find the peer again
        self.reconnect: Reconnect | None = None
        self.on_lost: Callable[[str], None] = lambda why: None
        self.on_restored: Callable[[], None] = lambda: None
        lifeline = self._lifeline
        self.rpc = Rpc(lifeline.control, call_timeout_s=settings.call_timeout_s)
        self.rpc.on_violation = lifeline.bulk.on_violation = self._violated
        lifeline.on_lost = self._lost
        lifeline.on_network_changed = self._network_changed
        lifeline.on_restored = self._restored
        lifeline.on_dead = self._end
        lifeline.on_round_trip = self.traffic.round_trip_took
        self.rpc.handle(pb.Introduction, self._introduce)
        self.rpc.handle(pb.Bye, self._bye)
        self.rpc.notice(pb.Bye, lambda bye: self._peer_closed(bye.reason))

    async def accept(self, answer: bytes) -> None:
        """Take the peer's answer to the offer of this side."""
        await self._lifeline.accept(answer)

    async def connect(self, name: str, *, initiator: bool, timeout_s: float | None = None) -> None:
        """Wait for the channels and introduce both sides. Returns after a full round trip; `start` follows.

        Raises:
            PairingError: no network path, or the peer did not answer in time.
            RemoteProtocolError: the peer's introduction cannot be used.
        """
        await self._lifeline.open(timeout_s or self._settings.pairing_timeout_s)
        timeout_s = self._settings.pairing_timeout_s
        mine = pb.Introduction(
            name=name,
            certificate_pem=self._identity.certificate_pem,
            codecs=[codec.name for codec in codecs()],
            machine=machine.mark(self._identity.certificate_pem),
        )
        await self.rpc.call(mine, pb.Done, timeout_s=timeout_s)
        async with asyncio.timeout(timeout_s):
            theirs = await asyncio.shield(self._introduced)
        self.peer_name = harmless(theirs.name[:64])
        self._agree(theirs, initiator)
        self._make_paths(theirs.certificate_pem, initiator)
        self._tasks.append(asyncio.ensure_future(self._serve_flight(theirs.certificate_pem)))

    def start(self) -> None:
        """All message handlers are registered: take messages, open the paths, watch the peer."""
        self.traffic.on_change = self.ladder.on_change = self.tuning.on_change = self.on_change
        self.rpc.start()
        self.ladder.start()
        self._lifeline.start(self.reconnect)

    def _agree(self, theirs: pb.Introduction, initiator: bool) -> None:
        """Begin with the codecs that both sides have, on the processors that they have."""
        available = frozenset(codec.name for codec in codecs()) & frozenset(theirs.codecs)
        self.agreement = Agreement(self.rpc, available, initiator=initiator)
        self.tuning = Tuning(
            self.rpc,
            self.agreement,
            workers=self._decoding.workers,
            together=machine.is_marked(theirs.certificate_pem, theirs.machine),
        )

    def _make_paths(self, peer_certificate_pem: bytes, initiator: bool) -> None:
        context = PathContext(
            self.rpc,
            self._lifeline.bulk,
            self._identity,
            peer_certificate_pem,
            self._tickets,
            self._server,
            self._io,
            self._decoding,
            initiator,
            self._settings.prepare_limit_bytes,
            CarrierDesk(self.rpc, self._settings.allowed_paths),
            self._settings.allowed_ice_servers,
            self._settings.map_port,
        )
        paths: list[Path] = [_PATHS[name](context) for name in _PATHS if name in self._settings.allowed_paths]
        for query in (
            kind.query for name, kind in _PATHS.items() if name not in self._settings.allowed_paths
        ):
            if query is not None:
                self.rpc.handle(query, self._refuse_path)
        self.ladder = Ladder(paths, lambda path: prober.measure(path))
        self.exports = Exports(self.rpc, self.ladder, self.traffic, self.tuning.tuner, self._settings)
        prober = Prober(self.rpc, self.exports, self.traffic)
        self.imports = Imports(
            self.rpc, self.ladder, self.traffic, self._decoding, self.agreement, self._settings.held_bytes
        )
        self.rpc.notice(pb.TransferPause, self._transfer_paused)
        self.rpc.notice(pb.TransferEnd, self._transfer_ended)

    def _transfer_paused(self, pause: pb.TransferPause) -> None:
        if not self.exports.peer_paused(pause.transfer_id, pause.paused):
            self.imports.pulls.peer_paused(pause)

    def _transfer_ended(self, end: pb.TransferEnd) -> None:
        if not self.exports.peer_ended(end):
            self.imports.pulls.peer_ended(end)

    async def ping(self) -> float:
        """One round trip over the control channel, in seconds."""
        start_s = time.monotonic()
        await self.rpc.call(pb.Ping(), pb.Done)
        elapsed_s = time.monotonic() - start_s
        self.traffic.round_trip_took(elapsed_s)
        return elapsed_s

    def statistics(self, state: str) -> Statistics:
        """A frozen snapshot."""
        best = self.ladder.best
        path = best.name if best else None
        return self.traffic.statistics(state, path, self.ladder.statuses(), self._lifeline.reconnects)

    async def close(self, reason: str = "") -> None:
        """Say goodbye, then free everything. Returns when it is done; safe to call twice."""
        if self._closing is None and not self._ended.done():
            with contextlib.suppress(DuetError, TimeoutError):
                async with asyncio.timeout(_BYE_TIMEOUT_S):  # also where the link is looking for the peer
                    await self.rpc.call(pb.Bye(reason=reason), pb.Done)
        self._end(LinkClosed(f"this side closed the link{': ' + reason if reason else ''}"))
        if self._closing is not None:
            await asyncio.shield(self._closing)

    # -- how a link ends -------------------------------------------------------------------------------------

    def _end(self, error: LinkClosed) -> None:
        """Begin to close, once, for one reason."""
        if self._closing is None:
            self._ended.set_result(error)
            self._closing = asyncio.ensure_future(self._free(error))
            self.on_closed(error)

    async def _free(self, error: LinkClosed) -> None:
        self.rpc.close(error)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if hasattr(self, "ladder"):
            self.exports.close(str(error))
            self.imports.pulls.close(error)
            await self.ladder.close()
        await self._lifeline.close(str(error))
        if self._server.done() and not self._server.cancelled() and self._server.exception() is None:
            await _close_server(self._server.result())
        self._server.cancel()
        for pool in (self._io, self._codec_pool):
            pool.shutdown(wait=False, cancel_futures=True)

    def _violated(self, error: RemoteProtocolError) -> None:
        """The peer broke the protocol: tell it, then end."""
        self.rpc.tell_nowait(pb.Bye(reason=f"protocol violation: {error}"))
        self._end(LinkClosed(f"the link was closed because {error}"))

    async def _bye(self, bye: pb.Bye) -> pb.Done:
        asyncio.get_running_loop().call_soon(self._peer_closed, bye.reason)
        return pb.Done()

    def _peer_closed(self, reason: str) -> None:
        words = f": {harmless(reason[:500])}" if reason else ""
        self._end(LinkClosed(f"the peer closed the link{words}; launch or join a new one to go on"))

    # -- how it survives -------------------------------------------------------------------------------------

    def _lost(self, why: str) -> None:
        self.rpc.pause()
        self.ladder.pause()
        self.on_lost(why)

    def _network_changed(self) -> None:
        self.ladder.hurry()
        self.tuning.tuner.link_changed()

    def _restored(self) -> None:
        self.tuning.tuner.link_changed()
        self.rpc.resume()
        self.ladder.resume()
        self.on_restored()

    # -- how it begins ---------------------------------------------------------------------------------------

    async def _introduce(self, introduction: pb.Introduction) -> pb.Done:
        if self._introduced.done():
            raise RemoteProtocolError("the peer introduced itself twice")
        check_certificate(introduction.certificate_pem)
        self._introduced.set_result(introduction)
        return pb.Done()

    async def _refuse_path(self, query: Message) -> Message:
        raise PathUnavailable(f"the peer allows only these paths: {', '.join(self._settings.allowed_paths)}")

    async def _serve_flight(self, peer_certificate_pem: bytes) -> None:
        """Start the Flight server; paths wait for it."""
        # without the tcp rung nobody needs to reach it from outside
        host = "[::]" if "tcp" in self._settings.allowed_paths else "127.0.0.1"  # [::] takes IPv4 as well

        def start() -> FlightServer:
            return FlightServer(
                self._identity,
                peer_certificate_pem,
                self._tickets,
                self._codec_pool,
                self.tuning.rate_cap,
                on_bytes=self.exports.served,
                on_changed=self.exports.refused,
                host=host,
            )

        starting = asyncio.get_running_loop().run_in_executor(self._io, start)
        try:
            server = await asyncio.shield(starting)
        except PathUnavailable as error:
            self._server.set_exception(error)
            self._server.exception()  # it may be that no path asks
        except asyncio.CancelledError:
            with contextlib.suppress(PathUnavailable):
                (await starting).close()
            raise
        else:
            self._server.set_result(server)


async def _close_server(server: FlightServer) -> None:
    """Blocks until gRPC's threads have left: on a thread of its own, since executors take no more work when
    the interpreter is ending.
    """
    loop = asyncio.get_running_loop()
    closed = loop.create_future()

    def close() -> None:
        server.close()
        loop.call_soon_threadsafe(closed.set_result, None)

    threading.Thread(target=close, name="duetlink-close").start()
    await closed
