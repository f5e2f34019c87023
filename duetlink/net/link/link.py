"""One life of the dual channel: introduced, connected, closed; everything it owns goes with it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from google.protobuf.message import Message

from duetlink.base.events import LinkEnded, LinkLost, LinkOpened, LinkRestored, ReconnectFailed, Sink
from duetlink.base.runtime.holdings import Holdings
from duetlink.base.runtime.own_threads import OwnThreads
from duetlink.base.runtime.uptime import uptime_s
from duetlink.base.wire import schema_pb2 as pb
from duetlink.errors import LinkClosed, PathUnavailable, PeerLost, PortUnavailable
from duetlink.net.datagrams.base import Datagrams
from duetlink.net.flight.guest import Guest
from duetlink.net.flight.receiving import Decoding
from duetlink.net.flight.server import FlightServer
from duetlink.net.flight.tickets import TicketTable
from duetlink.net.link.agreement import Agreement
from duetlink.net.link.endpoint import Endpoint
from duetlink.net.link.exports import Exports
from duetlink.net.link.imports import Imports
from duetlink.net.link.introducing import Introducing, PeerFacts, say_goodbye
from duetlink.net.link.probing import Prober
from duetlink.net.link.reconnector import Outage, Reconnect
from duetlink.net.link.traffic import Statistics, Traffic
from duetlink.net.link.tuning import Tuning
from duetlink.net.paths.base import Path, PathContext
from duetlink.net.paths.carrier_commands import CarrierCommands
from duetlink.net.paths.path_selector import PathSelector
from duetlink.net.paths.registry import OURS, path_class
from duetlink.net.streams.streams import Streams
from duetlink.settings import PATHS, Settings

_MOST_WAITING = 9  # calls at once: eight, and the one that pulls what comes on streams


@dataclass(frozen=True, slots=True)
class LinkOwner:
    """What a link tells the one whose link it is, on the loop thread."""

    closed: Callable[[LinkClosed], None] = lambda error: None
    lost: Callable[[str], None] = lambda why: None  # the peer is out of reach, and looked for
    restored: Callable[[], None] = lambda: None
    stopped: Callable[[], None] = lambda: None  # this process was, for a while


class Link:
    """A connected link to one peer, on an endpoint. Made by `connect`; methods belong to the loop thread."""

    def __init__(
        self,
        introducing: Introducing,
        known: PeerFacts,
        settings: Settings,
        endpoint: Endpoint,
        *,
        initiator: bool,
        sink: Sink,
    ) -> None:
        """`introducing` has made `known`, and gives up its channels. `start` follows."""
        self._reconnector, self.rpc = introducing.hand_over(self._end)
        self._settings = settings
        self._endpoint = endpoint
        self._subject = known.subject
        self._ended: asyncio.Future[LinkClosed] = asyncio.get_running_loop().create_future()
        self._closing: asyncio.Task[None] | None = None
        self._lost_s = 0.0  # when the peer was lost last
        self.sink = sink
        self.traffic = Traffic(sink)
        self.holdings = Holdings()
        self.peer_name = known.peer_name
        self._opened = LinkOpened(initiator, known.together, len(known.codecs))
        self.reading: Executor = endpoint.reading
        self._owner = LinkOwner()
        # to be set before `start`, where there is a way to find the peer again
        self.reconnect: Reconnect | None = None
        self.tuning = Tuning(
            self.rpc,
            known.codecs,
            sink,
            paths={*PATHS, *settings.allowed_paths},
            workers=endpoint.workers,
            together=known.together,
        )
        self.agreement = Agreement(self.rpc, known.codecs, self.tuning.apply, initiator=initiator)
        # where calls wait for the peer's network: of this link alone, so that no other link waits with them
        self._waiting = OwnThreads(_MOST_WAITING, "duetlink-io")
        decoding = Decoding(endpoint.codec_pool, endpoint.workers)
        tickets = TicketTable(time.monotonic)
        self._server: asyncio.Future[FlightServer] = asyncio.get_running_loop().create_future()
        context = PathContext(
            self.rpc,
            self._reconnector.bulk,
            known.client,
            known.peer_certificate_pem,
            tickets,
            self._server,
            self._waiting,
            endpoint.reading,
            decoding,
            initiator,
            settings.prepare_limit_bytes,
            CarrierCommands(self.rpc, settings.allowed_paths),
            settings.allowed_ice_servers,
            settings.map_port,
            self.holdings,
            sink,
            settings.listen,
        )
        self.path_selector = PathSelector(self._paths(context), sink, lambda path: prober.measure(path))
        self.exports = Exports(
            self.rpc, self.path_selector, self.traffic, self.tuning.tuner, settings, self.holdings
        )
        prober = Prober(self.rpc, self.exports, self.traffic)
        self.imports = Imports(
            self.rpc,
            self.path_selector,
            self.traffic,
            decoding,
            self.agreement,
            settings.held_bytes,
            self.holdings,
        )
        self.streams = Streams(
            self.rpc,
            self.path_selector,
            tickets,
            introducing.violated,
            self.traffic.count_stream,
            initiator=initiator,
            call_timeout_s=settings.call_timeout_s,
        )
        self.rpc.notice(pb.TransferPause, self._transfer_paused)
        self.rpc.notice(pb.TransferEnd, self._transfer_ended)
        guest = Guest(tickets, self.tuning.rate_cap, self.exports.served, self.exports.refused)
        self._serving = asyncio.ensure_future(self._serve_flight(guest, *self._listens_at(known)))

    @classmethod
    async def connect(
        cls,
        introducing: Introducing,
        settings: Settings,
        endpoint: Endpoint,
        name: str,
        *,
        initiator: bool,
        timeout_s: float | None = None,
        sink: Sink | None = None,
    ) -> Link:
        """Introduce both sides, under `name` this one, and return the link, of which `sink` hears. Raises as
        `Introducing.meet`.
        """
        known = await introducing.meet(name, timeout_s)
        return cls(introducing, known, settings, endpoint, initiator=initiator, sink=sink or Sink())

    @property
    def own_absence(self) -> str:
        """That this side slept or was blocked a moment ago for longer than a silence may last, in words; else
        empty.
        """
        return self._reconnector.own_absence()

    @property
    def ended(self) -> LinkClosed | None:
        """Why it has ended; None while it has not."""
        return self._ended.result() if self._ended.done() else None

    @property
    def outage(self) -> Outage | None:
        """Why the peer is out of reach, and for how long it is looked for; None while it is not. From any
        thread.
        """
        return self._reconnector.outage

    def hurry(self) -> None:
        """Somebody wants the peer now: look for it at once, where it is lost or silent."""
        self._reconnector.hurry()

    def belong_to(self, owner: LinkOwner) -> None:
        """Let `owner` hear of the link from here on, and nobody else."""
        self._owner = owner

    def start(self) -> None:
        """All message handlers are registered: take messages, open the paths, watch the peer."""
        self.sink.emit(self._opened)
        self.rpc.start()
        self.path_selector.start()
        self._reconnector.start(self, self.reconnect)

    def _paths(self, context: PathContext) -> list[Path]:
        """Those that this side allows; what the peer asks of the others is refused."""
        allowed = self._settings.allowed_paths
        for name, kind in OURS.items():
            if name not in allowed and kind.query is not None:
                self.rpc.handle(kind.query, self._refuse_path)
        return [path_class(name)(context) for name in allowed]

    def _transfer_paused(self, pause: pb.TransferPause) -> None:
        if not self.exports.peer_paused(pause.transfer_id, pause.paused):
            self.imports.pulls.peer_paused(pause)

    def _transfer_ended(self, end: pb.TransferEnd) -> None:
        if not self.exports.peer_ended(end):
            self.imports.pulls.peer_ended(end)

    @property
    def datagrams(self) -> Datagrams:
        """Messages of one packet, which may be lost."""
        return self._reconnector.datagrams

    async def ping(self) -> float:
        """One round trip over the control channel, in seconds."""
        start_s = time.monotonic()
        await self.rpc.call(pb.Ping(), pb.Done)
        elapsed_s = time.monotonic() - start_s
        self.traffic.round_trip_took(elapsed_s)
        return elapsed_s

    def statistics(self, state: str) -> Statistics:
        """A frozen snapshot."""
        best, paths = self.path_selector.best, self.path_selector.statuses()
        if self.outage is not None:  # whether a path still carries anything shows when the peer is back
            best, paths = None, tuple(path.out_of_reach() for path in paths)
        path = best.name if best else None
        return self.traffic.statistics(state, path, paths, self._reconnector.reconnects)

    async def close(self, reason: str = "") -> None:
        """Say goodbye, then free everything. Returns when it is done; safe to call twice."""
        if self._closing is None and not self._ended.done():
            await say_goodbye(self.rpc, reason)
        self._end(LinkClosed(f"this side closed the link{': ' + reason if reason else ''}"))
        if self._closing is not None:
            await asyncio.shield(self._closing)

    def cut(self, reason: str) -> None:
        """End without waiting for the peer, as `close` does, which then returns soon if it is under way."""
        if self._closing is None:
            self.rpc.tell_nowait(pb.Bye(reason=reason))
        self._end(LinkClosed(f"this side closed the link: {reason}"))

    # -- how a link ends -------------------------------------------------------------------------------------

    def _end(self, error: LinkClosed) -> None:
        """Begin to close, once, for one reason."""
        if self._closing is None:
            self._ended.set_result(error)
            self.sink.emit(LinkEnded(type(error)))
            self._closing = asyncio.ensure_future(self._free(error))
            self._owner.closed(error)

    async def _free(self, error: LinkClosed) -> None:
        self.rpc.close(error)
        self._serving.cancel()
        await asyncio.gather(self._serving, return_exceptions=True)
        await self.streams.close(error)
        self.exports.close(str(error))
        self.imports.pulls.close(error)
        self._reconnector.datagrams.close(error)
        await self.path_selector.close()
        await self._reconnector.close(str(error))
        if self._server.done() and not self._server.cancelled() and self._server.exception() is None:
            await self._endpoint.dismiss(self._server.result(), self._subject)
        self._server.cancel()
        self._waiting.shutdown()

    # -- how it survives, as `ReconnectorOwner` --------------------------------------------------------------

    def gave_up(self, error: PeerLost) -> None:
        self._end(error)

    def round_trip_took(self, time_s: float) -> None:
        self.traffic.round_trip_took(time_s)

    def was_stopped(self) -> None:
        self._owner.stopped()

    def attempt_failed(self, error: BaseException) -> None:
        self.sink.emit(ReconnectFailed(type(error)))

    def connection_lost(self, why: str) -> None:
        self._lost_s = uptime_s()
        self.sink.emit(LinkLost(own_absence=bool(self.own_absence)))
        self.rpc.pause()
        self.path_selector.pause()
        self._owner.lost(why)

    def network_changed(self) -> None:
        self.path_selector.hurry()
        self.tuning.tuner.link_changed()

    def connection_restored(self) -> None:
        self.tuning.tuner.link_changed()
        self.sink.emit(LinkRestored(self._reconnector.reconnects, uptime_s() - self._lost_s))
        self.rpc.resume()
        self.path_selector.resume()
        self._owner.restored()

    # -- what it serves --------------------------------------------------------------------------------------

    async def _refuse_path(self, query: Message) -> Message:
        raise PathUnavailable(f"the peer allows only these paths: {', '.join(self._settings.allowed_paths)}")

    def _listens_at(self, known: PeerFacts) -> tuple[str, range | None]:
        """The address, and the ports, at which the peer, or this side's helper processes, can reach the
        Flight server.
        """
        settings = self._settings
        fixed = settings.flight_ports  # which `Endpoint.open_fixed` has opened, whoever comes
        if "tcp" not in settings.allowed_paths or (known.loopback and fixed is None):
            return "127.0.0.1", None  # nobody needs to reach it from outside
        return settings.listen or "::", fixed

    async def _serve_flight(self, guest: Guest, host: str, ports: range | None) -> None:
        """Have the peer admitted to the Flight server; paths wait for it."""
        try:
            self._server.set_result(await self._endpoint.admit(host, self._subject, guest, ports))
        except (PathUnavailable, PortUnavailable, LinkClosed) as error:
            self._server.set_exception(error)
            self._server.exception()  # it may be that no path asks
