"""Path MTU: sizes to try, requests of exactly that size, and servers behind a narrow path."""

from __future__ import annotations

import asyncio

import pytest
from aioice import stun
from hypothesis import given
from hypothesis import strategies as st

from duetlink.tools.doctor.message import Address
from duetlink.tools.doctor.mtu import between, measure_mtu, padded_request, probe_mtu

from .fake_server import truthful, udp_server


@given(st.integers(15, 2250).map(lambda words: 4 * words), st.sampled_from([28, 48]))
def test_a_padded_request_has_the_size_that_is_asked_for(packet_bytes: int, header_bytes: int) -> None:
    if packet_bytes < header_bytes + 20:
        return
    request = padded_request(packet_bytes, header_bytes)
    assert len(request) + header_bytes == packet_bytes
    message = stun.parse_message(request)
    assert message.message_method == stun.Method.BINDING
    assert set(message.attributes) <= {"SOFTWARE"}


@pytest.mark.parametrize("size", [40, 577, 1281])
def test_a_size_that_no_request_has(size: int) -> None:
    with pytest.raises(ValueError, match="cannot make a packet"):
        padded_request(size, 28)


@given(st.integers(0, 2000), st.integers(0, 2000))
def test_the_search_ends_at_the_last_size_that_passes(passes: int, above: int) -> None:
    passes, low, high, rounds = 4 * passes, 0, 4 * (passes + above + 1), 0
    while sizes := between(low, high):
        assert all(low < size < high and size % 4 == 0 for size in sizes)
        assert len(sizes) <= 8
        low = max([low, *(size for size in sizes if size <= passes)])
        high = min([high, *(size for size in sizes if size > passes)])
        rounds += 1
    assert low == passes
    assert rounds <= 5


@pytest.mark.parametrize("narrow", [1500, 1420, 1412, 1280])
async def test_the_mtu_of_a_path_is_found(narrow: int) -> None:
    async with udp_server(truthful) as (fake, server):
        fake.largest_packet = narrow
        assert await measure_mtu(server) == narrow


async def test_a_server_that_does_not_answer(dead_port: int) -> None:
    assert await measure_mtu(("127.0.0.1", dead_port)) is None


async def told(*servers: Address) -> list[Address]:
    return list(servers)


async def test_the_narrowest_path_counts(dead_port: int) -> None:
    async with (
        udp_server(truthful) as (wide, first),
        udp_server(truthful, hosts=("127.0.0.2",)) as (narrow, second),
    ):
        wide.largest_packet, narrow.largest_packet = 1500, 1000
        servers = told(first, second, ("127.0.0.3", dead_port))
        finding = await probe_mtu(asyncio.ensure_future(servers))
    assert finding.outcome == "limited"
    assert finding.words.startswith("Packets of 1,000 bytes get to 127.0.0.2 in one piece.")
    assert finding.details["servers"] == {"127.0.0.1": 1500, "127.0.0.2": 1000}


async def test_without_a_server_nothing_is_known() -> None:
    assert (await probe_mtu(asyncio.ensure_future(told()))).outcome == "unknown"
