"""The contract of a path: subclass `PathContract` and supply a fixture `links` of a pair that uses your path.

`links` is an async fixture that returns two connected links, (receiver, sender), whose settings allow the
path under test and no other.
"""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from duetlink.base.wire import schema_pb2 as pb
from duetlink.errors import AssetChanged, LimitExceeded, TicketRefused
from duetlink.net.flight.body import Outgoing, ReceiveBuffer
from duetlink.net.flight.sending import Order

Links = Any


def _body(size_bytes: int) -> tuple[np.ndarray, Outgoing]:
    array = np.random.default_rng(size_bytes).integers(0, 256, size_bytes, np.uint8)
    header = memoryview(b"header")
    return array, Outgoing([header, array.data], len(header) + array.nbytes)


class PathContract:
    """Tests of one path, through the public methods of its links."""

    @pytest.mark.parametrize("size_bytes", [20_000, 1_000_000, 9_000_000])
    async def test_a_body_arrives_exactly(self, links: Links, size_bytes: int) -> None:
        receiver, sender = links
        array, body = _body(size_bytes)
        arrived = await receiver.imports.pull("x", await sender.exports.offer("x", body), 1 << 40)
        assert bytes(arrived[:6]) == b"header"
        assert np.array_equal(np.frombuffer(arrived[6:], np.uint8), array)

    async def test_what_arrives_is_writable_and_not_the_senders(self, links: Links) -> None:
        receiver, sender = links
        array, body = _body(100_000)
        first = int(array[0])
        arrived = await receiver.imports.pull("x", await sender.exports.offer("x", body), 1 << 40)
        arrived[6] = (first + 1) % 256
        assert array[0] == first

    async def test_several_at_once(self, links: Links) -> None:
        receiver, sender = links
        pairs = [_body(300_000 + index) for index in range(4)]

        async def move(body: Outgoing) -> memoryview:
            arrived: memoryview = await receiver.imports.pull(
                "x", await sender.exports.offer("x", body), 1 << 40
            )
            return arrived

        arrived = await asyncio.gather(*(move(body) for _, body in pairs))
        for (array, _), body in zip(pairs, arrived, strict=True):
            assert np.array_equal(np.frombuffer(body[6:], np.uint8), array)

    async def test_both_directions(self, links: Links) -> None:
        receiver, sender = links
        array, body = _body(200_000)
        arrived = await sender.imports.pull("x", await receiver.exports.offer("x", body), 1 << 40)
        assert np.array_equal(np.frombuffer(arrived[6:], np.uint8), array)

    async def test_content_that_changed_does_not_pass_for_the_old(self, links: Links) -> None:
        receiver, sender = links
        array, body = _body(1_000_000)
        array[-1] ^= 255
        with pytest.raises(AssetChanged):
            await receiver.imports.pull("x", await sender.exports.offer("x", body), 1 << 40)

    async def test_more_than_is_allowed_is_refused_before_it_moves(self, links: Links) -> None:
        receiver, sender = links
        _, body = _body(1_000_000)
        offer = await sender.exports.offer("x", body)
        with pytest.raises(LimitExceeded, match="1000006 bytes"):
            await receiver.imports.pull("x", offer, 1_000_000)

    async def test_a_ticket_of_an_ended_transfer_is_refused(self, links: Links) -> None:
        receiver, sender = links
        _, body = _body(100_000)
        offer = await sender.exports.offer("x", body)
        sender.exports.withdraw(offer)
        path = await receiver.path_selector.wait_best({})
        query = pb.TicketQuery(transfer_id=offer.transfer_id, path=path.name)
        with pytest.raises(TicketRefused, match="no such transfer"):
            await receiver.rpc.call(query, pb.Ticket)

    async def test_a_ticket_that_was_kept_brings_nothing_of_a_retired_asset(self, links: Links) -> None:
        receiver, sender = links
        _, body = _body(1_000_000)
        path = await receiver.path_selector.wait_best({})
        offer = await sender.exports.offer("x", body, path.name, sources=frozenset({("x", 1)}))
        assert offer.HasField("ticket")
        sender.exports.retire("x", 1, "'x' is no longer shared")
        receive_buffer = ReceiveBuffer(body.size_bytes)
        with pytest.raises(TicketRefused):
            await path.fetch(offer.ticket, receive_buffer)
        assert receive_buffer.position_bytes == 0
        query = pb.TicketQuery(transfer_id=offer.transfer_id, path=path.name, missing=[0, body.size_bytes])
        with pytest.raises(AssetChanged, match="'x' is no longer shared"):
            await receiver.rpc.call(query, pb.Ticket)

    async def test_an_open_path_may_be_opened_again(self, links: Links) -> None:
        receiver, sender = links
        path = await receiver.path_selector.wait_best({})
        await path.open()
        _, body = _body(100_000)
        ticket = await sender.path_selector.named(path.name).offer(b"t" * 16, body, Order(body.whole))
        receive_buffer = ReceiveBuffer(body.size_bytes)
        await path.fetch(ticket, receive_buffer)
        assert receive_buffer.complete
        sender.path_selector.named(path.name).release(b"t" * 16)

    async def test_a_cancelled_pull_leaves_both_sides_idle(self, links: Links) -> None:
        receiver, sender = links
        _, body = _body(30_000_000)
        offer = await sender.exports.offer("x", body)
        pulling = asyncio.ensure_future(receiver.imports.pull("x", offer, 1 << 40))
        while not pulling.done() and not receiver.traffic.statistics("", None, ()).received_bytes:
            await asyncio.sleep(0)
        pulling.cancel()
        await asyncio.gather(pulling, return_exceptions=True)
        await receiver.ping()  # earlier messages have arrived
        assert sender.exports.transfer(offer) is None
        _, other = _body(100_000)
        arrived = await receiver.imports.pull("y", await sender.exports.offer("y", other), 1 << 40)
        assert len(arrived) == other.size_bytes

    async def test_what_its_sender_has_paused_does_not_move_until_it_goes_on(self, links: Links) -> None:
        receiver, sender = links
        array, body = _body(1_000_000)
        path = await receiver.path_selector.wait_best({})
        sender.exports.pause(True)
        offer = await sender.exports.offer("x", body, path.name)
        pulling = asyncio.ensure_future(receiver.imports.pull("x", offer, 1 << 40))
        for link in (receiver, sender, receiver):
            await link.ping()
        (transfer,) = (transfer for transfer in receiver.traffic.transfers if transfer.running)
        assert (transfer.paused_there, transfer.done_bytes, pulling.done()) == (True, 0, False)
        sender.exports.pause(False)
        assert np.array_equal(np.frombuffer((await pulling)[6:], np.uint8), array)
