"""One link to one peer: it owns the control channel, the paths, the transfers and the streams, and frees
them.
"""

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

_MOST_WAITING = 9  # threads: eight for calls, one that pulls the peer's streams


@dataclass(frozen=True, slots=True)
class LinkOwner:
    """Callbacks of a link, called on the loop thread."""

    closed: Callable[[LinkClosed], None] = lambda error: None
    lost: Callable[[str], None] = lambda why: None  # the peer is out of reach, and the link is reconnecting
    restored: Callable[[], None] = lambda: None
    stopped: Callable[[], None] = lambda: None  # this process did not run for a while


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
        """Take over the channels of `introducing`, which established `known`. Call `start` next."""
        self._reconnector, self.rpc = introducing.hand_over(self._end)
        self._settings = settings
        self._endpoint = endpoint
        self._subject = known.subject
        self._ended: asyncio.Future[LinkClosed] = asyncio.get_running_loop().create_future()
        self._closing: asyncio.Task[None] | None = None
        self._lost_s = 0.0  # uptime when the connection was last lost
        self.sink = sink
        self.traffic = Traffic(sink)
        self.holdings = Holdings()
        self.peer_name = known.peer_name
        self._opened = LinkOpened(initiator, known.together, len(known.codecs))
        self.reading: Executor = endpoint.reading
        self._owner = LinkOwner()
        # set it before `start` if the peer can be found again; without it the link ends with its connection
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
        # threads for calls that wait for the peer's network; own ones, so that a slow peer delays no other
        # link
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
        self.rpc.notice(pb.TransferPlacing, self.imports.pulls.peer_places)
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
        """Introduce both sides, this one as `name`, and return the link, which emits its events to `sink`.

        Raises as `Introducing.meet`.
        """
        known = await introducing.meet(name, timeout_s)
        return cls(introducing, known, settings, endpoint, initiator=initiator, sink=sink or Sink())

    @property
    def own_absence(self) -> str:
        """Text that says for how long this side slept or was blocked, if that ended a moment ago; else empty.

        Only absences longer than the heartbeat time-out count.
        """
        return self._reconnector.own_absence()

    @property
    def ended(self) -> LinkClosed | None:
        """The reason for its end; None while it has not ended."""
        return self._ended.result() if self._ended.done() else None

    @property
    def outage(self) -> Outage | None:
        """The reason why the peer is out of reach, and for how long the link will still try; None while it is
        connected. From any thread.
        """
        return self._reconnector.outage

    def hurry(self) -> None:
        """Reconnect at once if the peer is lost or silent. Called when the user wants something from it."""
        self._reconnector.hurry()

    def belong_to(self, owner: LinkOwner) -> None:
        """Send the link's callbacks to `owner` from here on, instead of an earlier owner."""
        self._owner = owner

    def start(self) -> None:
        """Receive messages, open the paths and watch the connection.

        Call it when all handlers are registered.
        """
        self.sink.emit(self._opened)
        self.rpc.start()
        self.path_selector.start()
        self._reconnector.start(self, self.reconnect)

    def _paths(self, context: PathContext) -> list[Path]:
        """Return the allowed paths.

        For each of the others, register a handler that refuses the peer's query.
        """
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
    def allows_local(self) -> bool:
        """True if this side's settings let arrays go through memory of one host."""
        return "local" in self._settings.allowed_paths

    @property
    def datagrams(self) -> Datagrams:
        """The link's datagrams: single packets, which may be lost."""
        return self._reconnector.datagrams

    async def ping(self) -> float:
        """Measure one round trip over the control channel, in seconds."""
        start_s = time.monotonic()
        await self.rpc.call(pb.Ping(), pb.Done)
        elapsed_s = time.monotonic() - start_s
        self.traffic.round_trip_took(elapsed_s)
        return elapsed_s

    def statistics(self, state: str) -> Statistics:
        """Return a frozen snapshot."""
        best, paths = self.path_selector.best, self.path_selector.statuses()
        if self.outage is not None:  # the paths can be judged only when the peer is back
            best, paths = None, tuple(path.out_of_reach() for path in paths)
        path = best.name if best else None
        return self.traffic.statistics(state, path, paths, self._reconnector.reconnects)

    async def close(self, reason: str = "") -> None:
        """Say goodbye, then free everything. Return when that is done; safe to call twice."""
        if self._closing is None and not self._ended.done():
            await say_goodbye(self.rpc, reason)
        self._end(LinkClosed(f"this side closed the link{': ' + reason if reason else ''}"))
        if self._closing is not None:
            await asyncio.shield(self._closing)

    def cut(self, reason: str) -> None:
        """End the link without waiting for the peer. A `close` that is under way then returns soon."""
        if self._closing is None:
            self.rpc.tell_nowait(pb.Bye(reason=reason))
        self._end(LinkClosed(f"this side closed the link: {reason}"))

    # -- how a link ends -------------------------------------------------------------------------------------

    def _end(self, error: LinkClosed) -> None:
        """Begin to close. Only the first call has an effect, and its reason stays."""
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

    # -- callbacks of the reconnector (`ReconnectorOwner`) ---------------------------------------------------

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
        """Return host and ports at which the peer, or helper processes of this side, can reach the Flight
        server.
        """
        settings = self._settings
        fixed = settings.flight_ports  # `Endpoint.open_fixed` has opened it already
        if "tcp" not in settings.allowed_paths or (known.loopback and fixed is None):
            return "127.0.0.1", None  # other machines need not reach it
        return settings.listen or "::", fixed

    async def _serve_flight(self, guest: Guest, host: str, ports: range | None) -> None:
        """Admit the peer to the Flight server; paths wait for this."""
        try:
            self._server.set_result(await self._endpoint.admit(host, self._subject, guest, ports))
        except (PathUnavailable, PortUnavailable, LinkClosed) as error:
            self._server.set_exception(error)
            self._server.exception()  # retrieve the error: there may be no path that waits for it
