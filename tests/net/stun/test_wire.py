"""Asking by UDP and by streams: only the right answer counts, and nothing a stranger sends does harm."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator

import pytest
from aioice import stun
from hypothesis import given, settings
from hypothesis import strategies as st

from duetlink.net.stun.message import MAX_MESSAGE_BYTES, binding_request, mapped_address, read_message
from duetlink.net.stun.wire import StreamWire, UdpWire, dial
from duetlink.testing.faults import kept_counts
from tests.net.stun.fake_server import Address, bytes_server, reply, truthful, udp_server


@contextlib.asynccontextmanager
async def udp(to: Address, **how: bool) -> AsyncIterator[UdpWire]:
    wire = await UdpWire.open(to, **how)
    try:
        yield wire
    finally:
        wire.close()


# -- UDP -----------------------------------------------------------------------------------------------------


async def test_the_answer_says_where_it_was_asked_from() -> None:
    async with udp_server(truthful) as (_, server), udp(server) as wire:
        answer = await wire.ask(binding_request(), server)
        assert mapped_address(answer.message) == ("127.0.0.1", wire.local[1])
        assert answer.source == server
        assert answer.sendings == 1
        assert answer.round_trip_s > 0


async def test_only_the_transaction_that_was_asked_is_answered() -> None:
    def script(request: stun.Message, at: Address, source: Address) -> bytes:
        for junk in (
            b"",
            b"\x00" * 19,
            os.urandom(100),
            bytes(reply(request))[:-4],
            b"\x01\x01" + b"\xff" * 60_000,
        ):
            fake.send(junk, at, source)
        forged = stun.Message(
            stun.Method.BINDING, stun.Class.RESPONSE, b"x" * 12, {"XOR-MAPPED-ADDRESS": ("6.6.6.6", 6)}
        )
        fake.send(bytes(forged), at, source)
        return truthful(request, at, source)

    async with udp_server(script) as (fake, server), udp(server) as wire:
        answer = await wire.ask(binding_request(), server)
        assert mapped_address(answer.message) == ("127.0.0.1", wire.local[1])


async def test_an_answer_from_elsewhere_does_not_count() -> None:
    def from_the_other_port(request: stun.Message, at: Address, source: Address) -> None:
        other = next(place for place in fake.sockets if place != at)
        fake.send(truthful(request, at, source), other, source)

    async with udp_server(from_the_other_port, ports=2) as (fake, server), udp(server) as wire:
        with pytest.raises(TimeoutError):
            await wire.ask(binding_request(), server, 0.2)


async def test_a_lost_question_is_asked_again() -> None:
    def second_time(request: stun.Message, at: Address, source: Address) -> bytes | None:
        return truthful(request, at, source) if len(fake.asked) > 1 else None

    async with udp_server(second_time) as (fake, server), udp(server) as wire:
        answer = await wire.ask(binding_request(), server, 30.0)
        assert answer.sendings >= 2


async def test_a_closed_port_is_known_at_once() -> None:
    async with udp_server(truthful) as (_, server):
        pass
    async with udp(server, connected=True) as wire:
        with pytest.raises(ConnectionRefusedError):  # else, a TimeoutError in the end
            await wire.ask(binding_request(), server, 60.0)


# -- streams -------------------------------------------------------------------------------------------------


async def test_messages_are_read_from_a_stream_however_they_are_cut() -> None:
    async def one_byte_at_a_time(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = stun.parse_message(await reader.readexactly(20))
        channel_data = b"\x40\x00\x00\x05hello\x00\x00\x00"
        for byte in channel_data + bytes(reply(request, {"XOR-MAPPED-ADDRESS": ("192.0.2.1", 7)})):
            writer.write(bytes([byte]))
            await writer.drain()

    async with bytes_server(one_byte_at_a_time) as server:
        wire = await dial(StreamWire, server)
        answer = await wire.ask(binding_request(), server)
        assert mapped_address(answer.message) == ("192.0.2.1", 7)
        wire.close()


@pytest.mark.parametrize(
    "sent", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x01\x01\xff\xff", b"\x4f\xff\x08\x01" + b"x" * 100_000]
)
async def test_a_server_that_speaks_something_else_is_given_up(sent: bytes) -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        await reader.read()

    async with bytes_server(speak) as server:
        wire = await dial(StreamWire, server)
        with pytest.raises(OSError, match=r"too long for STUN|closed"):
            await wire.ask(binding_request(), server, 1.0)
        with pytest.raises(OSError, match=r"too long for STUN|closed"):
            await wire.ask(binding_request(), server, 1.0)
        wire.close()


async def test_a_server_that_drips_costs_no_more_than_the_bound() -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\x01\x01\x07\x00")
        while not writer.is_closing():
            writer.write(b"\x00")
            await writer.drain()
            await asyncio.sleep(0.02)

    async with bytes_server(drip) as server:
        wire = await dial(StreamWire, server)
        with pytest.raises(TimeoutError):
            await wire.ask(binding_request(), server, 0.3)
        assert kept_counts(wire)["buffer"] < MAX_MESSAGE_BYTES
        wire.close()


async def test_a_server_that_hangs_up_is_not_waited_for() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(20)

    async with bytes_server(hang_up) as server:
        wire = await dial(StreamWire, server)
        with pytest.raises(ConnectionResetError, match="closed the connection"):
            await wire.ask(binding_request(), server, 5.0)
        wire.close()


# -- messages ------------------------------------------------------------------------------------------------

_WHOLE = bytes(
    stun.Message(
        stun.Method.ALLOCATE,
        stun.Class.ERROR,
        b"t" * 12,
        {
            "ERROR-CODE": (401, "who"),
            "REALM": "r",
            "NONCE": b"n",
            "XOR-MAPPED-ADDRESS": ("192.0.2.1", 1),
            "OTHER-ADDRESS": ("2001:db8::1", 2),
            "LIFETIME": 3,
            "CHANNEL-NUMBER": 0x4000,
        },
    )
)


@given(st.binary(max_size=3000))
def test_any_bytes_are_read_without_an_error(data: bytes) -> None:
    read_message(data)


@settings(max_examples=500)
@given(
    st.lists(st.tuples(st.integers(0, len(_WHOLE) - 1), st.integers(0, 255)), max_size=6),
    st.integers(0, len(_WHOLE)),
)
def test_a_spoilt_message_is_read_without_an_error(changes: list[tuple[int, int]], cut: int) -> None:
    spoilt = bytearray(_WHOLE)
    for position, value in changes:
        spoilt[position] = value
    for data in (bytes(spoilt), bytes(spoilt[:cut])):
        message = read_message(data)
        if message is not None:
            mapped_address(message)


@given(
    st.lists(st.tuples(st.sampled_from(sorted(stun.ATTRIBUTES_BY_TYPE)), st.binary(max_size=40)), max_size=8)
)
def test_attributes_of_any_content_are_read_without_an_error(attributes: list[tuple[int, bytes]]) -> None:
    body = b"".join(
        kind.to_bytes(2, "big") + len(value).to_bytes(2, "big") + value + bytes(-len(value) % 4)
        for kind, value in attributes
    )
    read_message(b"\x01\x01" + len(body).to_bytes(2, "big") + _WHOLE[4:20] + body)


def test_messages_of_no_sensible_size_are_none() -> None:
    assert read_message(_WHOLE) is not None
    assert read_message(_WHOLE[:19]) is None
    padded = _WHOLE[:2] + (2080).to_bytes(2, "big") + _WHOLE[4:20] + b"\x80\x22\x08\x1c" + bytes(2076)
    assert stun.parse_message(padded)
    assert read_message(padded) is None
