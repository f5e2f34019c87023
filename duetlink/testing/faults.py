"""Fault hooks: ways into a running duet, group or link, for tests of what happens when something breaks.

Tests name nothing private of the packages. What they have to break, or to look at where nothing public shows
it, they reach through here, so that a change inside changes this file and not a hundred tests.
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
    """The parts of a duet or of a group. Call them on its loop, by `run_inside`."""
    return whole._life


def link_of(duet: Duet) -> Link:
    """The link of a duet. Raises AssertionError: it has none yet."""
    link = duet._life.link
    assert link is not None, "this duet has no link yet"
    return link


def run_inside(whole: Duet | Group, coroutine: Coroutine[Any, Any, T]) -> T:
    """What the coroutine returns, run on the loop of a duet or of a group."""
    return whole._thread.run(coroutine)


def start_inside(whole: Duet | Group, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
    """Start the coroutine on the loop of a duet or of a group."""
    return whole._thread.submit(coroutine)


def cut_link(link: Link) -> Callable[[], None]:
    """Let nothing leave the sockets of the link's connection any more; returns what undoes it.

    To be called on the link's loop.
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
    """Done when the link has ended, with the reason."""
    return link._ended


def send_control(link: Link, message: bytes) -> None:
    """Send any bytes as a control message, as a hostile peer may."""
    link._reconnector.control.send_nowait(message)


def set_constants(patch: pytest.MonkeyPatch, whole: object, **values: Any) -> None:
    """Let constants of a module or limits of an object have other values during a test, reached sooner.

    `CLOSE_TIMEOUT_S=60.0` is for `_CLOSE_TIMEOUT_S`. Raises AttributeError: there is none of that name.
    """
    for name, value in values.items():
        patch.setattr(whole, f"_{name}", value)


def replace_function(
    patch: pytest.MonkeyPatch, whole: object, name: str, function: Callable[..., Any]
) -> Callable[..., Any]:
    """Let a function of a module, or a method of a class or an object, be another during a test.

    `"send"` is for `_send`. Returns the true one. Raises AttributeError: there is none of that name.
    """
    true: Callable[..., Any] = getattr(whole, f"_{name}")
    patch.setattr(whole, f"_{name}", function)
    return true


def kept_counts(whole: object) -> dict[str, int]:
    """How many things each collection of an object holds, which is bounded, and forgotten in time."""
    return {name.lstrip("_"): len(kept) for name, kept in vars(whole).items() if isinstance(kept, Sized)}


def list_function(lists: Allowed, function: Function) -> None:
    """Put an operation onto the lists, as if a library had it."""
    lists._functions[function.name] = function


def listed_functions(lists: Allowed) -> frozenset[str]:
    """The names of all functions on the lists, those too that this version of a library has not."""
    return frozenset(lists._functions)


def socket_of(room: Room) -> socket.socket:
    """What a room's process is asked by. Raises AssertionError: it has not been started."""
    assert room._channel is not None, "this room has no process"
    return room._channel._socket


def use_codec(patch: pytest.MonkeyPatch, codec: Codec) -> None:
    """Let a codec be registered during a test, whatever its number."""
    table = {**registry._table(), codec.name: codec}
    patch.setattr(registry, "_table", lambda: table)


def forget_codecs() -> None:
    """Let codecs be found by their entry points anew, and forget those that were registered."""
    registry._table.cache_clear()


def arriving_bytes(intake: JobIntake) -> int:
    """The room that what is on its way to the owner's requests takes."""
    return intake._arriving_bytes


async def looked_at_result(encoded: Encoded, decoding: Decoding) -> Encoded:
    """What a function gave, with what the owner's side finds out of it."""
    from duetlink.duet.answering import job_run

    return await job_run._looked_at(encoded, decoding)


def gradients_of(duet: Duet) -> GradientCompressor:
    """What compresses the gradients that a duet shares."""
    return duet._offering._gradients.by(link_of(duet).agreement.compression)


def mapped_assets(desk: ProgramHandler) -> dict[tuple[str, int], memoryview]:
    """The memory of assets as a room has it, by their names and revisions."""
    return desk._assets


def end_run(desk: ProgramHandler) -> None:
    """End what a desk in this process has begun, as a room's end does."""
    if desk._begun is not None:
        desk._begun._open.close()


def is_run_by_policy(inbox: Inbox, request: Incoming) -> bool:
    """Whether a policy has what is asked for run now, so that no person need look at it."""
    return inbox._queue[request.number].run_by is not None


def kept_rooms(duet: Duet) -> Reuse:
    """What an owner's duet keeps of the programs that it ran."""
    return duet._life.programs._reuse


async def close_rooms(kept: Reuse) -> None:
    """End what is kept, and let more be kept from now on."""
    await kept.close()
    kept._is_closed = False
    kept._seen.clear()
    kept._earlier.clear()


def server_of(link: Link) -> asyncio.Future[FlightServer]:
    """The server that a link shares with others of its endpoint."""
    return link._server


async def stream_to(mesh: Mesh, rank: int) -> Stream:
    """The stream of messages to a member, for bytes that a mesh does not send."""
    return await mesh._stream(rank)


def hang_up(link: Link) -> None:
    """Shut the connections by which the peer pulls from this link's server. Blocks."""
    link._server.result()._doorkeeper.hang_up(link._subject)


def outlet_of(streams: Streams) -> Outlet:
    """The half of the streams that sends frames."""
    return streams._outlet


def inlet_of(streams: Streams) -> Inlet:
    """The half of the streams that takes parcels; those of a hostile peer may be given to it."""
    return streams._inlet


def attempt_of(path: CarriedPath) -> Attempt | None:
    """The attempt that a path is on, or was made by."""
    return path._attempt


def lose_attempt(path: CarriedPath) -> None:
    """Let a path forget its attempt, as if the news of it were lost."""
    assert path._attempt is not None, "this path has no attempt"
    path._attempt_over(path._attempt, "lost")


def kept_round(sums: ResidueSum) -> MaskedRound | None:
    """The round that is kept to be finished by the members that are left."""
    return sums._kept


def part_of(steps: LocalSteps) -> Averaged:
    """What one member has of the rounds of its local steps: what it gives, and what was agreed on."""
    return steps._part


def rounds_of(steps: LocalSteps) -> Rounds:
    """The rounds of local steps."""
    return steps._rounds


def have_trained(training: DpSgd, steps: int) -> None:
    """Account for so many steps, as if they had been done."""
    training._steps = steps


def flight_client(path: Path | None) -> FlightClient:
    """The client of a path over which Flight is spoken. Raises AssertionError: it is not open."""
    assert path is not None, "no path is open"
    client = cast("FlightPath", path)._client
    assert client is not None, f"{path.name} is not open"
    return client


def arrow_client(client: FlightClient) -> flight.FlightClient:
    """The client of Arrow by which one dials, that asks for more than ours does."""
    return client._client


def context_of(path: Path) -> PathContext:
    """What a path over which Flight is spoken has of its link: tickets, and the threads in which it waits."""
    return cast("FlightPath", path)._context


def open_exports(link: Link) -> dict[bytes, Export]:
    """What a link's side is sending, by the numbers of the transfers."""
    return link.exports._open


def send_frame(link: Link, frame: bytes | str) -> None:
    """Send a frame of the control channel as it is, whole or not, as a hostile peer may."""
    channel: Any = link._reconnector.control
    channel._channel._channel.send(frame)


async def send_bulk(link: Link, frame: bytes) -> None:
    """Send a frame of the bulk channel, as a hostile peer may."""
    await link._reconnector.bulk.send(frame)


def helper_pid(child: Child) -> int:
    """The number of a helper's process. Raises AssertionError: it has not been started."""
    assert child._process is not None, "this helper has no process"
    return child._process.pid


def hear_event(child: Child, event: dict[str, Any]) -> None:
    """Let a helper have told of an event."""
    child._heard(event)


def incoming_of(request: Request) -> Incoming:
    """What the owner's side keeps of a request."""
    return request._incoming


def runner_of(owner: Duet) -> Runner:
    """What runs an owner's approved requests."""
    return owner._life.inbox._runner
