"""The transport of an epoch over real links: its contract, and members that break the protocol."""

from __future__ import annotations

import asyncio
import gc
import struct
from typing import Any

import pytest

from duetlink.errors import LimitExceeded, LinkClosed, LocalProtocolError, PeerLost, RemoteProtocolError
from duetlink.groups.links.mesh import Mesh
from duetlink.groups.links.transport import Transport
from duetlink.net.link.endpoint import Endpoint
from duetlink.net.link.link import Link
from duetlink.settings import Settings
from duetlink.testing.faults import stream_to
from duetlink.testing.transports import TransportContract
from tests.groups.memory_links import MOST_WAITING, Network

TCP = Settings(only=("tcp",))

Links = dict[tuple[int, int], Link]


async def linked(make_pair: Any, size: int) -> Links:
    """The link of each member to each other, by (here, there)."""
    endpoints = [Endpoint() for _ in range(size)]
    links: Links = {}
    for one in range(size):
        for other in range(one + 1, size):
            links[one, other], links[other, one] = await make_pair(
                TCP, endpoint=endpoints[one], other_endpoint=endpoints[other]
            )
    return links


def meshed(links: Links, size: int, epoch: int, violations: list[Any]) -> list[Mesh]:
    def violated(here: int) -> Any:
        return lambda rank, error: violations.append((here, rank, str(error)))

    return [
        Mesh(
            epoch,
            here,
            [links[here, there].streams if there != here else None for there in range(size)],
            violated(here),
        )
        for here in range(size)
    ]


class TestMesh(TransportContract):
    @pytest.fixture(autouse=True)
    async def _links(self, make_pair: Any) -> Any:
        self.make_pair = make_pair
        self.meshes: list[Mesh] = []
        yield
        for mesh in self.meshes:
            await mesh.close()

    async def connect(self, size: int) -> list[Transport]:
        self.meshes = meshed(await linked(self.make_pair, size), size, 1, [])
        return list(self.meshes)

    async def lose(self, rank: int) -> None:
        for mesh in self.meshes:
            if mesh.rank != rank:
                mesh.fail(PeerLost(f"rank {rank} is lost", rank=rank, name="carl"))


HEAD = struct.Struct("<QHQ")


async def test_a_member_that_breaks_the_protocol_is_found_out_and_nobody_else_disturbed(
    make_pair: Any,
) -> None:
    links = await linked(make_pair, 3)
    cases: list[tuple[list[tuple[bytes, bytes]], type[Exception], str]] = [
        ([(b"short", b"")], RemoteProtocolError, "head has 5 bytes"),
        ([(HEAD.pack(99, 2, 0), b"")], RemoteProtocolError, "of epoch 99"),
        ([(HEAD.pack(0, 1, 0), b"")], RemoteProtocolError, "in the name of rank 1"),
        ([(HEAD.pack(0, 2, 1), b"")], RemoteProtocolError, "message 1 where message 0 was due"),
        ([(HEAD.pack(0, 2, 0) + bytes(4097), b"")], LimitExceeded, "at most 4096"),
        ([(HEAD.pack(0, 2, 0), bytes(8 * 1024 * 1024 + 1))], LimitExceeded, "8388609 bytes"),
    ]
    for number, (messages, kind, words) in enumerate(cases, 10):
        violations: list[Any] = []
        meshes = meshed(links, 3, number, violations)
        hostile = await stream_to(meshes[2], 0)
        for head, body in messages:
            epoch, rank, index = HEAD.unpack(head[: HEAD.size]) if len(head) >= HEAD.size else (None, 0, 0)
            right = HEAD.pack(epoch or number, rank, index) + head[HEAD.size :] if epoch is not None else head
            await hostile.send(right, memoryview(body))
        with pytest.raises(kind, match=words):
            await meshes[0].receive(2)
        assert [(here, rank) for here, rank, _ in violations] == [(0, 2)]
        await meshes[1].send(0, b"as before", memoryview(b"1"))
        assert (await meshes[0].receive(1)).head == b"as before"
        for mesh in meshes:
            await mesh.close()


async def test_what_is_repeated_is_refused(make_pair: Any) -> None:
    meshes = meshed(await linked(make_pair, 2), 2, 3, [])
    hostile = await stream_to(meshes[1], 0)
    for _ in range(2):
        await hostile.send(HEAD.pack(3, 1, 0) + b"pay", memoryview(b""))
    assert (await meshes[0].receive(1)).head == b"pay"
    with pytest.raises(RemoteProtocolError, match="repeated"):
        await meshes[0].receive(1)
    with pytest.raises(LocalProtocolError, match="8388608"):
        await meshes[0].send(1, b"", memoryview(bytes(8 * 1024 * 1024 + 1)))
    for mesh in meshes:
        await mesh.close()
    with pytest.raises(LinkClosed, match="closed"):
        await meshes[0].send(1, b"", memoryview(b""))


async def test_a_send_that_is_cancelled_twice_leaves_no_exception_behind() -> None:
    """As an operation that a person interrupts is, when the group is closed while the message leaves."""
    unseen: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, what: unseen.append(what["message"]))
    network = Network(1)
    links: Any = network.link("ann", "ben")
    for link in links:
        link.start()
    ann = Mesh(1, 0, [None, links[0]], lambda rank, error: None)
    ben = Mesh(1, 1, [links[1], None], lambda rank, error: None)
    for _ in range(MOST_WAITING):
        await ann.send(1, b"", memoryview(b""))
    sending = asyncio.ensure_future(ann.send(1, b"", memoryview(b"")))  # waits: nobody receives
    for _ in range(2):
        await asyncio.sleep(0)
        sending.cancel()
    await asyncio.wait([sending], timeout=1)
    assert sending.cancelled()
    del sending  # and with it the frame that holds the message
    ann.fail(LinkClosed("epoch 1 is over"))
    for _ in range(3):
        await asyncio.sleep(0)
    await asyncio.gather(ann.close(), ben.close())
    await network.close()
    gc.collect()
    assert unseen == []
