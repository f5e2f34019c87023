"""Several peers on one endpoint: what one has is of no use to another, and nobody waits for anybody else."""

from __future__ import annotations

import asyncio
import errno
import gc
import socket
import threading
from typing import Any

import numpy as np
import psutil
import pytest
from pyarrow import flight

from duetlink.base.wire import schema_pb2 as pb
from duetlink.errors import PathUnavailable, TicketRefused
from duetlink.net.flight.body import Outgoing, ReceiveBuffer
from duetlink.net.flight.client import FlightClient
from duetlink.net.flight.sending import Order
from duetlink.net.link.endpoint import Endpoint
from duetlink.net.link.link import Link
from duetlink.settings import Settings
from duetlink.testing.faults import arrow_client, context_of, flight_client, server_of

MIB = 1024 * 1024
TCP = Settings(only=("tcp",))


def outgoing(array: np.ndarray) -> Outgoing:
    return Outgoing([array.data.cast("B")], array.nbytes)


def body(size_bytes: int) -> tuple[np.ndarray, Outgoing]:
    array = np.random.default_rng(size_bytes).integers(0, 256, size_bytes, np.uint8)
    return array, outgoing(array)


async def three_peers(make_pair: Any, settings: Settings = TCP) -> tuple[Endpoint, list[Link], list[Link]]:
    """An endpoint with three links, and the far ends of them, each on an endpoint of its own."""
    endpoint = Endpoint()
    pairs = [await make_pair(settings, endpoint=endpoint) for _ in range(3)]
    for _, far in pairs:
        await far.path_selector.wait_settled()
    return endpoint, [near for near, _ in pairs], [far for _, far in pairs]


async def fetch(client: FlightClient, ticket: bytes, size_bytes: int) -> ReceiveBuffer:
    receive_buffer = ReceiveBuffer(size_bytes)
    await asyncio.to_thread(client.fetch, ticket, receive_buffer, lambda cancel: None)
    return receive_buffer


def client_of(link: Link) -> FlightClient:
    client = flight_client(link.path_selector.named("tcp"))
    assert isinstance(client, FlightClient)
    return client


async def test_three_peers_share_one_server_and_get_their_own(make_pair: Any) -> None:
    _, near, far = await three_peers(make_pair)
    assert len({(await server_of(link)).port for link in near}) == 1
    bodies = [body(MIB + number) for number in range(3)]
    for (array, out), sender, receiver in zip(bodies, near, far, strict=True):
        arrived = await receiver.imports.pull("x", await sender.exports.offer("x", out), 1 << 40)
        assert np.array_equal(np.frombuffer(arrived, np.uint8), array)


async def test_a_ticket_of_one_peer_is_unknown_when_another_brings_it(make_pair: Any) -> None:
    _, near, far = await three_peers(make_pair)
    _, out = body(100_000)
    ticket = await near[0].path_selector.named("tcp").offer(b"a" * 16, out, Order(out.whole))
    for thief in far[1:]:
        with pytest.raises(TicketRefused, match="used, expired, or never issued") as stolen:
            await fetch(client_of(thief), ticket.flight, out.size_bytes)
        with pytest.raises(TicketRefused) as guessed:
            await fetch(client_of(thief), b"guess" * 7, out.size_bytes)
        assert str(stolen.value) == str(guessed.value)
    # nor has the thief used it up
    assert (await fetch(client_of(far[0]), ticket.flight, out.size_bytes)).digest() == out.fingerprint


async def test_a_transfer_of_one_peer_has_no_ticket_for_another(make_pair: Any) -> None:
    _, near, far = await three_peers(make_pair)
    _, out = body(100_000)
    offer = await near[0].exports.offer("x", out)
    with pytest.raises(TicketRefused, match="no such transfer"):
        await far[1].rpc.call(pb.TicketQuery(transfer_id=offer.transfer_id, path="tcp"), pb.Ticket)
    with pytest.raises(TicketRefused, match="no such transfer"):
        await far[1].rpc.call(pb.ManifestQuery(transfer_id=offer.transfer_id), pb.Manifest)
    far[1].rpc.tell_nowait(pb.TransferEnd(transfer_id=offer.transfer_id))
    await far[1].ping()
    assert near[0].exports.transfer(offer) is not None


async def test_what_one_peer_has_been_sent_is_not_taken_for_held_by_another(make_pair: Any) -> None:
    _, near, far = await three_peers(make_pair)
    _, out = body(MIB)
    await far[0].imports.pull("x", await near[0].exports.offer("x", out), 1 << 40)
    await far[0].ping()  # what it told before has arrived
    assert (await near[0].exports.offer("x", out)).sent_before
    assert not (await near[1].exports.offer("x", out)).sent_before
    # the other way: what one peer has sent is not looked for in what another offers
    _, theirs = body(2 * MIB)
    await near[0].imports.pull("y", await far[0].exports.offer("y", theirs), 1 << 40)
    await near[1].imports.pull("y", await far[1].exports.offer("y", theirs), 1 << 40)
    moved = [transfer.wire_bytes for transfer in near[1].traffic.transfers if transfer.direction == "in"]
    assert moved[0] >= 2 * MIB


async def test_the_certificate_of_a_closed_link_opens_nothing(make_pair: Any) -> None:
    _, near, far = await three_peers(make_pair)
    _, out = body(100_000)
    server = await server_of(near[0])
    ticket = await near[0].path_selector.named("tcp").offer(b"a" * 16, out, Order(out.whole))
    path = far[0].path_selector.named("tcp")
    context = context_of(path)
    await near[0].close()
    client = FlightClient(
        "127.0.0.1", server.port, context.client, context.peer_certificate_pem, context.decoding
    )
    try:
        with pytest.raises(PathUnavailable, match="used, expired, or never issued"):
            await asyncio.to_thread(client.probe, 5.0)
        with pytest.raises(TicketRefused):
            await fetch(client, ticket.flight, out.size_bytes)
    finally:
        client.close()
    await asyncio.to_thread(client_of(far[1]).probe, 5.0)  # the others go on


async def test_what_is_issued_for_one_peers_key_is_no_use_with_another_key(make_pair: Any) -> None:
    endpoint, near, far = await three_peers(make_pair)
    server = await server_of(near[0])
    mine, theirs = (context_of(link.path_selector.named("tcp")) for link in far[:2])
    stolen = type(mine.client)(theirs.client.certificate_pem, mine.client.private_key_pem)
    client = FlightClient("127.0.0.1", server.port, stolen, endpoint.identity.certificate_pem, mine.decoding)
    with pytest.raises(PathUnavailable):
        await asyncio.to_thread(client.probe, 3.0)
    client.close()


async def test_a_peer_that_does_not_read_loses_its_connection_when_its_link_closes(make_pair: Any) -> None:
    """A stream that waits for such a peer would keep its thread and the body while the server lives."""
    _, near, far = await three_peers(make_pair)
    _, out = body(64 * MIB)
    path = near[0].path_selector.named("tcp")
    ticket = await path.offer(b"a" * 16, out, Order(out.whole))
    context = context_of(far[0].path_selector.named("tcp"))
    server = await server_of(near[0])
    client = FlightClient(
        "127.0.0.1", server.port, context.client, context.peer_certificate_pem, context.decoding
    )
    reader = arrow_client(client).do_get(flight.Ticket(ticket.flight))
    reader.read_chunk()  # and no more: the stream is stuck in flow control
    await near[0].close()
    bound = asyncio.get_running_loop().call_later(10, reader.cancel)  # which is another error
    try:
        with pytest.raises((flight.FlightUnavailableError, flight.FlightInternalError, OSError)):
            await asyncio.to_thread(lambda: [reader.read_chunk() for _ in range(1000)])
    finally:
        bound.cancel()
        client.close()
    await asyncio.to_thread(client_of(far[1]).probe, 5.0)


async def test_a_peer_that_keeps_all_its_calls_waiting_keeps_nobody_else(make_pair: Any) -> None:
    _, near, far = await three_peers(make_pair)
    ends = [threading.Event() for _ in range(20)]
    loop = asyncio.get_running_loop()
    waiting = context_of(near[0].path_selector.named("tcp")).waiting
    blocked = [loop.run_in_executor(waiting, end.wait) for end in ends]
    try:
        array, out = body(MIB)
        arrived = await asyncio.wait_for(
            near[1].imports.pull("x", await far[1].exports.offer("x", out), 1 << 40), 10
        )
        assert np.array_equal(np.frombuffer(arrived, np.uint8), array)
        assert not any(call.done() for call in blocked)
    finally:
        for end in ends:
            end.set()
        await asyncio.gather(*blocked)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The peers of this test do not share a loopback, as if they were on two machines."""
    monkeypatch.setattr("duetlink.base.runtime.machine.loopback_mark", lambda of: b"")


def refused(host: str, port: int) -> bool:
    with socket.socket() as dialling:
        dialling.settimeout(5)
        return dialling.connect_ex((host, port)) == errno.ECONNREFUSED


async def test_a_peer_that_shares_the_loopback_is_served_there_alone(make_pair: Any) -> None:
    near, far = await make_pair(TCP)
    await far.path_selector.wait_settled()
    server = await server_of(near)
    assert server.host == "127.0.0.1"
    assert far.path_selector.best.name == "tcp"
    assert client_of(far).address == f"127.0.0.1:{server.port}"
    assert refused("127.0.0.2", server.port)  # an address of this machine like any other


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("path", ["tcp", "channel", "udp"])
async def test_listen_names_the_address_at_which_a_peer_elsewhere_is_served(
    make_pair: Any, path: str
) -> None:
    near, far = await make_pair(Settings(only=("tcp", path), listen="127.0.0.2"))
    server = await server_of(near)
    assert server.host == "127.0.0.2"
    assert refused("127.0.0.1", server.port)
    await far.path_selector.wait_settled()
    assert [status.state for status in far.path_selector.statuses() if status.name == path] == ["up"]


@pytest.mark.usefixtures("elsewhere")
async def test_an_address_that_this_machine_does_not_have_keeps_the_path_down(make_pair: Any) -> None:
    near, _ = await make_pair(Settings(only=("tcp", "channel"), listen="192.0.2.1"))
    with pytest.raises(PathUnavailable, match=r"listen on 192\.0\.2\.1: .*[Cc]annot assign"):
        await server_of(near)


@pytest.mark.usefixtures("elsewhere")
async def test_a_link_that_nobody_may_dial_is_not_on_the_server_that_everybody_can(make_pair: Any) -> None:
    endpoint = Endpoint()
    near, _ = await make_pair(TCP, endpoint=endpoint)
    hidden, _ = await make_pair(Settings(only=("channel",)), endpoint=endpoint)
    assert (await server_of(near)).port != (await server_of(hidden)).port
    with socket.create_connection(("127.0.0.1", (await server_of(hidden)).port), 5) as inside:
        assert inside.getpeername()[0] == "127.0.0.1"
    ports = {(await server_of(link)).port for link in (near, hidden)}
    sockets = psutil.Process().net_connections("tcp")
    listening = [each.laddr for each in sockets if each.status == psutil.CONN_LISTEN]
    hosts = [ip.removeprefix("::ffff:") for ip, port in listening if port in ports]
    assert sorted(hosts) == ["127.0.0.1", "::"]


@pytest.mark.parametrize("path", ["tcp", "local"])
async def test_no_heartbeat_waits_for_the_transfer_of_another_link(make_pair: Any, path: str) -> None:
    """Round trips of one link are counted while another moves 1 GiB; none may be missed."""
    settings = Settings(only=(path,))
    endpoint, other = Endpoint(), Endpoint()  # two kernels with two duets each
    moves, beats = [await make_pair(settings, endpoint=endpoint, other_endpoint=other) for _ in range(2)]
    array = np.zeros(1024 * MIB, np.uint8)
    pulling = asyncio.ensure_future(
        moves[0].imports.pull("x", await moves[1].exports.offer("x", outgoing(array)), 1 << 40)
    )
    answered = missed = 0
    while not pulling.done():
        try:
            await beats[0].rpc.call(pb.Ping(), pb.Done, timeout_s=settings.heartbeat_interval_s)
            answered += 1
        except TimeoutError:
            missed += 1
    assert len(await pulling) == array.nbytes
    assert missed == 0
    assert answered >= 1


async def test_links_that_are_still_held_when_all_is_closed_keep_no_server_of_grpc(make_pair: Any) -> None:
    """A notebook holds what it has made, and an interpreter that ends waits 2 s for a server of gRPC."""
    endpoints = [Endpoint(), Endpoint()]
    links = await make_pair(TCP, endpoint=endpoints[0], other_endpoint=endpoints[1])
    for link in links:
        await link.path_selector.wait_settled()
    assert servers_of_grpc() == 2  # one at each end
    for link in links:
        await link.close()
    for endpoint in endpoints:
        await endpoint.close()
    assert servers_of_grpc() == 0


def servers_of_grpc() -> int:
    gc.collect()
    return sum(isinstance(each, flight.FlightServerBase) for each in gc.get_objects())
