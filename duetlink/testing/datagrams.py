"""The contract of `Datagrams`: subclass `DatagramsContract` and supply a fixture `datagrams` of both ends.

`datagrams` is an async fixture that returns two connected ends. The network between them may lose packets and
must hold a few dozen at once. No test relies on one datagram: it is sent again until it arrives.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from duetlink.errors import LocalProtocolError
from duetlink.net.datagrams.base import Datagrams

Ends = Any  # a pair of Datagrams


async def send_until(sender: Datagrams, receiver: Datagrams, payload: bytes) -> None:
    """Send `payload` until it has arrived, whatever else arrives before it."""
    while True:
        sender.send(payload)
        try:
            async with asyncio.timeout(0.2):
                while await receiver.receive() != payload:
                    pass
                return
        except TimeoutError:
            continue


class DatagramsContract:
    """Tests of one implementation, through its public methods only."""

    async def test_both_sides_reach_each_other(self, datagrams: Ends) -> None:
        one, other = datagrams
        await send_until(one, other, b"to the other")
        await send_until(other, one, b"to the one")

    @pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
    async def test_payloads_of_all_lengths_arrive_unchanged(self, datagrams: Ends, share: float) -> None:
        one, other = datagrams
        size_bytes = int(share * one.mtu_bytes)
        await send_until(one, other, bytes(number % 251 for number in range(size_bytes)))

    async def test_what_does_not_fit_a_packet_is_refused(self, datagrams: Ends) -> None:
        one, _ = datagrams
        assert one.mtu_bytes >= 500
        with pytest.raises(LocalProtocolError, match=str(one.mtu_bytes)):
            one.send(bytes(one.mtu_bytes + 1))

    async def test_each_arrives_at_most_once_and_as_it_was(self, datagrams: Ends) -> None:
        one, other = datagrams
        sent = [b"%d" % number for number in range(200)]
        arrived: list[bytes] = []

        async def receive() -> None:
            while True:
                arrived.append(await other.receive())

        receiving = asyncio.ensure_future(receive())
        for payload in sent:
            one.send(payload)
            await asyncio.sleep(0)
        await asyncio.wait((receiving,), timeout=0.5)
        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)
        assert len(arrived) == len(set(arrived)) > 0
        assert set(arrived) <= set(sent)

    async def test_sending_never_waits_and_what_is_beyond_the_pace_is_dropped(self, datagrams: Ends) -> None:
        one, _ = datagrams
        for _ in range(20_000):  # 20 MB in one turn of the loop: nothing can leave meanwhile
            one.send(bytes(one.mtu_bytes))
        assert one.dropped > 10_000

    async def test_loss_and_rate_are_told_by_the_peer(self, datagrams: Ends) -> None:
        one, other = datagrams
        assert one.loss is None
        while one.loss is None:
            one.send(bytes(1000))
            await asyncio.sleep(0.01)
        assert 0.0 <= one.loss <= 1.0
        assert one.delivered_bytes_per_s > 0
        assert other.loss is None  # it has sent nothing
