"""What is said of each STUN URL, and of UDP as a whole."""

from __future__ import annotations

import asyncio
import ssl

import pytest
from aioice import stun

from duetlink.net.stun.server_url import ServerUrl
from duetlink.settings import IceServer
from duetlink.tools.doctor.finding import Finding
from duetlink.tools.doctor.resolver import Resolver
from duetlink.tools.doctor.stun_probe import probe_stun
from duetlink.tools.doctor.udp import udp_finding

from .conftest import Authority
from .fake_server import Address, refusal, reply, stream_server, truthful, udp_server


async def ask(url: str, tls: ssl.SSLContext | None = None, resolver: Resolver | None = None) -> Finding:
    parsed = ServerUrl.parse(url, IceServer((url,)))
    return await probe_stun(parsed, resolver or Resolver(timeout_s=0.2), tls or ssl.create_default_context())


async def test_a_server_that_answers() -> None:
    def script(request: stun.Message, at: Address, source: Address) -> bytes:
        return bytes(
            reply(request, {"XOR-MAPPED-ADDRESS": source, "SOFTWARE": "evil\u202e\x1b[2J" + "x" * 500})
        )

    async with udp_server(script) as (_, (host, port)):
        finding = await ask(f"stun:{host}:{port}")
    assert finding.outcome == "ok"
    assert finding.words.startswith(f"stun:127.0.0.1:{port} by UDP answers in ")
    assert finding.details["round_trip_s"] > 0
    assert finding.details["software"].startswith("evil\\u202e\\x1b[2J")
    assert len(finding.details["software"]) < 150


async def test_by_tls_with_a_certificate_that_is_right(authority: Authority) -> None:
    async with stream_server(truthful, authority.server()) as (host, port):
        finding = await ask(f"stuns:{host}:{port}", authority.client())
    assert finding.outcome == "ok"
    assert " by TLS answers in " in finding.words


async def test_a_server_that_is_silent_is_told_and_not_waited_for(dead_port: int) -> None:
    finding = await ask(f"stun:127.0.0.1:{dead_port}")
    assert finding.outcome == "failed"
    assert "nothing answers" in finding.words
    assert "firewall" in finding.advice


async def test_a_port_where_nobody_listens() -> None:
    async with udp_server(truthful) as (_, (host, port)):
        pass
    for url in (f"stun:{host}:{port}", f"stuns:{host}:{port}"):
        finding = await ask(url)
        assert finding.outcome == "failed"
        assert "nothing listens on this port" in finding.words


async def test_a_server_that_refuses() -> None:
    async with udp_server(lambda request, at, source: refusal(request, 401)) as (_, (host, port)):
        finding = await ask(f"stun:{host}:{port}")
    assert finding.outcome == "failed"
    assert "refuses Binding requests (401)" in finding.words


async def test_a_name_that_dns_never_tells() -> None:
    async def never(host: str) -> list[str]:
        await asyncio.Event().wait()
        raise AssertionError

    finding = await ask("stun:stun.example.org", resolver=Resolver(never, 0.1))
    assert finding.outcome == "failed"
    assert "was not resolved within 0.1 s: DNS does not answer" in finding.words


async def test_the_family_that_works_is_enough() -> None:
    async def both(host: str) -> list[str]:
        return ["::1", "127.0.0.1"]

    async with udp_server(truthful) as (_, (_, port)):
        finding = await ask(f"stun:stun.example.org:{port}", resolver=Resolver(both))
    assert finding.outcome == "ok"
    assert "(not at ::1: " in finding.words


# -- UDP as a whole ------------------------------------------------------------------------------------------


def server(kind: str, transport: str, outcome: str, **details: object) -> Finding:
    return Finding(kind, outcome, "", "", {"url": "u", "transport": transport, **details})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("servers", "outcome", "words"),
    [
        ([], "unknown", "no STUN server is configured"),
        ([server("turn", "tcp", "ok", reachable=True)], "unknown", "no STUN server is configured"),
        ([server("stun", "udp", "ok")], "ok", "UDP goes out"),
        (
            [server("turn", "udp", "failed", reachable=True)],
            "ok",
            "UDP goes out",
        ),  # refused, so it was reached
        ([server("stun", "udp", "failed"), server("stun", "udp", "ok")], "ok", "UDP goes out"),
        ([server("stun", "udp", "failed")], "failed", "blocked, or none of them is up"),
        (
            [server("stun", "udp", "failed"), server("turn", "tls", "ok", reachable=True)],
            "failed",
            "UDP is blocked",
        ),
        ([server("stun", "", "failed")], "unknown", "no STUN server is configured"),
    ],
)
def test_whether_udp_goes_out(servers: list[Finding], outcome: str, words: str) -> None:
    finding = udp_finding(servers)
    assert finding.outcome == outcome
    assert words in finding.words
