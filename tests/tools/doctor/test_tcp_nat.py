"""What a NAT does to TCP, seen through servers that play one."""

from __future__ import annotations

import asyncio

import pytest
from aioice import stun

from duetlink.tools.doctor.finding import Finding
from duetlink.tools.doctor.message import Address
from duetlink.tools.doctor.tcp_nat_probe import probe_tcp_nat

from .fake_server import Script, bytes_server, refusal, reply, stream_server, truthful


async def ask(*servers: Address) -> Finding:
    async def told() -> list[Address]:
        return list(servers)

    return await probe_tcp_nat(asyncio.ensure_future(told()), ["127.0.0.1"])


def seen_at(port: int, **other: Address) -> Script:
    def script(request: stun.Message, at: Address, source: Address) -> bytes:
        attributes = {"XOR-MAPPED-ADDRESS": ("127.0.0.9", port or source[1])}
        return bytes(reply(request, attributes | {name.replace("_", "-"): to for name, to in other.items()}))

    return script


async def test_all_questions_leave_from_one_port() -> None:
    sources: list[Address] = []

    def note(request: stun.Message, at: Address, source: Address) -> bytes:
        sources.append(source)
        return truthful(request, at, source)

    async with stream_server(note) as first, stream_server(note, host="127.0.0.2") as second:
        finding = await ask(first, second)
    assert len(sources) == 2
    assert len(set(sources)) == 1
    assert (finding.outcome, finding.words) == ("ok", "No NAT by TCP either.")


@pytest.mark.parametrize(
    ("ports", "outcome", "mapping"),
    [((0, 0), "ok", "endpoint-independent"), ((1, 2), "limited", "endpoint-dependent")],
)
async def test_two_servers_show_the_mapping(ports: tuple[int, int], outcome: str, mapping: str) -> None:
    async with (
        stream_server(seen_at(ports[0])) as one,
        stream_server(seen_at(ports[1]), host="127.0.0.2") as other,
    ):
        finding = await ask(one, other)
    assert finding.outcome == outcome
    assert finding.details == {"translated": True, "mapping": mapping}
    assert mapping in finding.words


async def test_one_server_alone_does_not() -> None:
    async with stream_server(seen_at(0)) as server:
        finding = await ask(server)
    assert finding.outcome == "unknown"
    assert finding.details["mapping"] == "unknown"


async def test_a_servers_other_address_is_asked_as_well() -> None:
    async with (
        stream_server(seen_at(2), host="127.0.0.2") as other,
        stream_server(seen_at(1, OTHER_ADDRESS=other)) as server,
    ):
        finding = await ask(server)
    assert finding.outcome == "limited"


async def test_servers_that_do_not_answer_by_tcp(dead_port: int) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400\r\n\r\n")

    async with (
        bytes_server(hang_up) as web,
        stream_server(lambda request, at, source: refusal(request, 500)) as refuses,
    ):
        finding = await ask(web, refuses, ("127.0.0.1", dead_port))
    assert finding.outcome == "unknown"
    assert (await ask()).outcome == "unknown"
