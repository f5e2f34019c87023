"""Fault hooks: access to the inside of a running duet, group or link, for tests of failures.

Tests use no private names of the packages. Where a test has to break something, or to look at state that no
public method shows, it calls a function of this file. A change inside a package then changes this file, and
not a hundred tests. Functions that raise AssertionError do so when the part they return does not exist yet.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import socket
from collections.abc import Callable, Coroutine, Sized
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

import pytest

from duetlink.data.codecs import registry

if TYPE_CHECKING:  # a test of codecs needs no torch
    from pyarrow import flight

    from duetlink.compute.operations.allow_lists.allowed import Allowed, Function
    from duetlink.compute.worker.kernel.process import Room
    from duetlink.compute.worker.room.program import ProgramHandler
    from duetlink.data.codecs.base import Codec
    from duetlink.data.codecs.gradients.compressor import GradientCompressor
    from duetlink.data.values.base import Encoded
    from duetlink.duet.answering.inbox import Inbox
    from duetlink.duet.answering.incoming import Incoming
    from duetlink.duet.answering.job_intake import JobIntake
    from duetlink.duet.answering.requests import Request
    from duetlink.duet.answering.reuse import Reuse
    from duetlink.duet.answering.runner import Runner
    from duetlink.duet.duet import Duet
    from duetlink.duet.life import Life
    from duetlink.duet.objects.decoding import Decoding
    from duetlink.errors import LinkClosed
    from duetlink.groups.api.group import Group
    from duetlink.groups.api.rounds import Rounds
    from duetlink.groups.lifecycle.life import GroupLife
    from duetlink.groups.links.mesh import Mesh
    from duetlink.groups.secure.masked_round import MaskedRound
    from duetlink.groups.secure.residue_sum import ResidueSum
    from duetlink.learning.averaging.averaged import Averaged
    from duetlink.learning.averaging.local_steps import LocalSteps
    from duetlink.learning.dp.training import DpSgd
    from duetlink.net.carrier.helper.child import Child
    from duetlink.net.flight.client import FlightClient
    from duetlink.net.flight.server import FlightServer
    from duetlink.net.link.export import Export
    from duetlink.net.link.link import Link
    from duetlink.net.paths.attempt import Attempt
    from duetlink.net.paths.base import Path, PathContext
    from duetlink.net.paths.carried import CarriedPath
    from duetlink.net.paths.flight_path import FlightPath
    from duetlink.net.streams.inlet import Inlet
    from duetlink.net.streams.outlet import Outlet
    from duetlink.net.streams.stream import Stream
    from duetlink.net.streams.streams import Streams

T = TypeVar("T")


@overload
def life_of(whole: Duet) -> Life: ...
@overload
def life_of(whole: Group) -> GroupLife: ...
def life_of(whole: Duet | Group) -> Life | GroupLife:
    """Return the object that holds the parts of a duet or group. Call it on the loop, by `run_inside`."""
    return whole._life


def link_of(duet: Duet) -> Link:
    """Return the link of a duet. Raise AssertionError if it has none yet."""
    link = duet._life.link
    assert link is not None, "this duet has no link yet"
    return link


def run_inside(whole: Duet | Group, coroutine: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine on the loop thread of a duet or group, and return its result. Blocks."""
    return whole._thread.run(coroutine)


def start_inside(whole: Duet | Group, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
    """Start the coroutine on the loop thread of a duet or group."""
    return whole._thread.submit(coroutine)


def cut_link(link: Link) -> Callable[[], None]:
    """Drop every datagram that the link's connection sends; return a function that ends this.

    Call it on the link's loop.
    """
    connection: Any = link._reconnector._connection
    transports = [
        protocol.transport for protocol in connection._pc.sctp.transport.transport._connection._protocols
    ]
    kept = [transport.sendto for transport in transports]
    for transport in transports:
        transport.sendto = lambda data, address=None: None

    def heal() -> None:
        for transport, sendto in zip(transports, kept, strict=True):
            transport.sendto = sendto

    return heal


def end_of(link: Link) -> asyncio.Future[LinkClosed]:
    """Return the future that gets the reason when the link has ended."""
    return link._ended


def send_control(link: Link, message: bytes) -> None:
    """Send bytes of any content as a control message, as a hostile peer may."""
    link._reconnector.control.send_nowait(message)


def set_constants(patch: pytest.MonkeyPatch, whole: object, **values: Any) -> None:
    """Set private constants of a module, or limits of an object, for one test, so that limits are reached
    sooner.

    `CLOSE_TIMEOUT_S=60.0` sets `_CLOSE_TIMEOUT_S`. Raise AttributeError if there is no such name.
    """
    for name, value in values.items():
        patch.setattr(whole, f"_{name}", value)


def replace_function(
    patch: pytest.MonkeyPatch, whole: object, name: str, function: Callable[..., Any]
) -> Callable[..., Any]:
    """Replace a private function of a module, or method of a class or object, for one test.

    `"send"` replaces `_send`. Return the original. Raise AttributeError if there is no such name.
    """
    original: Callable[..., Any] = getattr(whole, f"_{name}")
    patch.setattr(whole, f"_{name}", function)
    return original


def kept_counts(whole: object) -> dict[str, int]:
    """Return the length of each collection that an object holds, by attribute, to assert that state
    is bounded.
    """
    return {name.lstrip("_"): len(kept) for name, kept in vars(whole).items() if isinstance(kept, Sized)}


def list_function(lists: Allowed, function: Function) -> None:
    """Add an operation to the allow lists, as if a library had it."""
    lists._functions[function.name] = function


def listed_functions(lists: Allowed) -> frozenset[str]:
    """Return the names of all functions on the lists, including those that the installed version lacks."""
    return frozenset(lists._functions)


def socket_of(room: Room) -> socket.socket:
    """Return the socket on which a room's process gets its requests. Raise AssertionError if it was
    not started.
    """
    assert room._channel is not None, "this room has no process"
    return room._channel._socket


def use_codec(patch: pytest.MonkeyPatch, codec: Codec) -> None:
    """Register a codec for one test, whatever its number."""
    table = {**registry._table(), codec.name: codec}
    patch.setattr(registry, "_table", lambda: table)


def forget_codecs() -> None:
    """Forget all registered codecs; the next lookup reads the entry points again."""
    registry._table.cache_clear()


def arriving_bytes(intake: JobIntake) -> int:
    """Return the bytes reserved for programs that are on their way to the owner."""
    return intake._arriving_bytes


async def summarised_result(encoded: Encoded, decoding: Decoding) -> Encoded:
    """Return a function's encoded result with the summary that the owner's side computes from its content."""
    from duetlink.duet.answering import job_run

    return await job_run._described(encoded, decoding)


def gradients_of(duet: Duet) -> GradientCompressor:
    """Return the compressor of the gradients that a duet shares."""
    return duet._offering._gradients.by(link_of(duet).agreement.compression)


def mapped_assets(handler: ProgramHandler) -> dict[tuple[str, int], memoryview]:
    """Return the memory of the assets that a room has mapped, by name and revision."""
    return handler._assets


def end_run(handler: ProgramHandler) -> None:
    """End the run that a program handler in this process has begun, as the end of its room does."""
    if handler._begun is not None:
        handler._begun._open.close()


def is_run_by_policy(inbox: Inbox, request: Incoming) -> bool:
    """True if a policy lets the request run now, without a decision by a person."""
    return inbox._queue[request.number].run_by is not None


def kept_rooms(duet: Duet) -> Reuse:
    """Return the rooms and frozen values that an owner's duet keeps to reuse them."""
    return duet._life.programs._reuse


async def close_rooms(kept: Reuse) -> None:
    """Close the kept rooms, and allow new ones to be kept."""
    await kept.close()
    kept._is_closed = False
    kept._seen.clear()
    kept._earlier.clear()


def server_of(link: Link) -> asyncio.Future[FlightServer]:
    """Return the future of the Flight server that a link shares with the other links of its endpoint."""
    return link._server


async def stream_to(mesh: Mesh, rank: int) -> Stream:
    """Return the stream of messages to a member, to send bytes that a mesh never sends."""
    return await mesh._stream(rank)


def hang_up(link: Link) -> None:
    """Shut the connections on which the peer fetches from this link's server. Blocks."""
    link._server.result()._doorkeeper.hang_up(link._subject)


def outlet_of(streams: Streams) -> Outlet:
    """Return the half of the streams that sends frames."""
    return streams._outlet


def inlet_of(streams: Streams) -> Inlet:
    """Return the half of the streams that receives parcels. A test can pass it parcels of a hostile peer."""
    return streams._inlet


def attempt_of(path: CarriedPath) -> Attempt | None:
    """Return the attempt that opens a path, or that opened it; None before the first."""
    return path._attempt


def lose_attempt(path: CarriedPath) -> None:
    """Make a path forget its attempt, as if the message about it were lost."""
    assert path._attempt is not None, "this path has no attempt"
    path._attempt_over(path._attempt, "lost")


def kept_round(sums: ResidueSum) -> MaskedRound | None:
    """Return the round that was kept so that the remaining members can finish it; None if there is none."""
    return sums._kept


def part_of(steps: LocalSteps) -> Averaged:
    """Return one member's part in the rounds of its local steps: its contribution, and the agreed values."""
    return steps._part


def rounds_of(steps: LocalSteps) -> Rounds:
    return steps._rounds


def account_steps(training: DpSgd, steps: int) -> None:
    """Account for `steps` steps of training without doing them."""
    training._steps = steps


def flight_client(path: Path | None) -> FlightClient:
    """Return the Flight client of a path. Raise AssertionError if the path is not open."""
    assert path is not None, "no path is open"
    client = cast("FlightPath", path)._client
    assert client is not None, f"{path.name} is not open"
    return client


def arrow_client(client: FlightClient) -> flight.FlightClient:
    """Return Arrow's own client, which can send requests that ours never sends."""
    return client._client


def context_of(path: Path) -> PathContext:
    """Return the parts of its link that a path may use, such as the ticket table and executors."""
    return cast("FlightPath", path)._context


def open_exports(link: Link) -> dict[bytes, Export]:
    """Return the transfers that a link's side is sending, by transfer id."""
    return link.exports._open


def send_frame(link: Link, frame: bytes | str) -> None:
    """Send a frame on the control channel unchanged, complete or not, as a hostile peer may."""
    channel: Any = link._reconnector.control
    channel._channel._channel.send(frame)


async def send_bulk(link: Link, frame: bytes) -> None:
    """Send a frame on the bulk channel, as a hostile peer may."""
    await link._reconnector.bulk.send(frame)


def helper_pid(child: Child) -> int:
    """Return the process id of a helper. Raise AssertionError if it was not started."""
    assert child._process is not None, "this helper has no process"
    return child._process.pid


def deliver_event(child: Child, event: dict[str, Any]) -> None:
    """Let the kernel receive an event of a helper."""
    child._on_event(event)


def incoming_of(request: Request) -> Incoming:
    """Return the owner's record of a request."""
    return request._incoming


def runner_of(owner: Duet) -> Runner:
    return owner._life.inbox._runner
