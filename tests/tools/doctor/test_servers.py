"""What is said of each STUN and TURN URL: every refusal told apart, every certificate trouble in words."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from typing import Any

import pytest
from aioice import stun

from duetlink.net.stun.server_url import ServerUrl
from duetlink.net.stun.trouble import refusal as refusal_words
from duetlink.settings import IceServer
from duetlink.tools.doctor.finding import Finding
from duetlink.tools.doctor.names import NameUnresolved, Resolved
from duetlink.tools.doctor.servers import probe_server, udp_finding
from tests.net.stun.fake_server import (
    Address,
    FakeTurn,
    bytes_server,
    refusal,
    reply,
    stream_server,
    truthful,
    udp_server,
)

from .conftest import Authority


async def ask(
    url: str,
    username: str | None = "u",
    credential: str | None = "p",
    tls: ssl.SSLContext | None = None,
    resolved: Resolved | None = None,
) -> Finding:
    parsed = ServerUrl.parse(url, IceServer((url,), username, credential))
    return await probe_server(parsed, resolved or [parsed.host], tls or ssl.create_default_context())


async def ask_udp(script: Callable[..., bytes | None], *credentials: Any) -> Finding:
    async with udp_server(script) as (_, (host, port)):
        return await ask(f"turn:{host}:{port}", *credentials)


# -- what works ----------------------------------------------------------------------------------------------


async def test_a_relay_is_tried_and_released() -> None:
    turn = FakeTurn()
    finding = await ask_udp(turn)
    assert finding.outcome == "ok"
    assert finding.words.endswith(" by UDP relays; credentials accepted.")
    assert finding.details["credentials"] == "accepted"
    assert turn.allocations == 0


async def test_a_relay_is_tried_over_a_stream() -> None:
    turn = FakeTurn()
    async with stream_server(turn) as (host, port):
        finding = await ask(f"turn:{host}:{port}?transport=tcp")
    assert finding.outcome == "ok"
    assert " by TCP relays" in finding.words
    assert turn.allocations == 0


async def test_a_server_without_credentials() -> None:
    def free(request: stun.Message, at: Address, source: Address) -> bytes:
        return bytes(
            reply(
                request,
                {"XOR-RELAYED-ADDRESS": ("127.0.0.1", 5), "XOR-MAPPED-ADDRESS": source, "LIFETIME": 60},
            )
        )

    finding = await ask_udp(free, None, None)
    assert finding.outcome == "ok"
    assert "asks for no credentials" in finding.words


# -- what does not -------------------------------------------------------------------------------------------


async def test_wrong_credentials() -> None:
    for credentials in (("u", "wrong"), ("nobody", "p")):
        finding = await ask_udp(FakeTurn(), *credentials)
        assert finding.outcome == "failed"
        assert "refuses the credentials (401): user name or password is wrong" in finding.words


async def test_missing_credentials() -> None:
    finding = await ask_udp(FakeTurn(), None, None)
    assert finding.outcome == "failed"
    assert "wants credentials (401), and none are configured" in finding.words


async def test_credentials_whose_time_is_over() -> None:
    finding = await ask_udp(FakeTurn(), f"{int(time.time()) - 7500}:ada", "p")
    assert finding.outcome == "failed"
    assert "they expired 2 hours ago" in finding.words
    assert "ada" not in finding.words


async def test_a_server_that_calls_every_nonce_stale() -> None:
    turn = FakeTurn()
    turn.stale_answers = 1000
    finding = await ask_udp(turn)
    assert finding.outcome == "failed"
    assert "stale (438)" in finding.words
    assert turn.stale_answers > 990


@pytest.mark.parametrize(
    ("code", "outcome", "words"),
    [
        (441, "failed", "not those that its allocation was made with (441)"),
        (486, "limited", "all allocations of this user are taken (486)"),
        (508, "limited", "no room for an allocation (508)"),
        (403, "failed", "forbids this user to relay (403)"),
        (300, "failed", "another server (300)"),
        (500, "failed", "does not relay (500: as scripted)"),
        (699, "failed", "refuses (699: as scripted)"),
    ],
)
async def test_every_refusal_is_told_apart(code: int, outcome: str, words: str) -> None:
    finding = await ask_udp(FakeTurn({stun.Method.ALLOCATE: code}))
    assert finding.outcome == outcome
    assert words in finding.words
    assert finding.advice
    assert finding.details["error_code"] == code


async def test_an_answer_that_is_not_signed_is_not_believed() -> None:
    turn = FakeTurn()
    turn.sign = False
    finding = await ask_udp(turn)
    assert finding.outcome == "failed"
    assert "not signed with these credentials" in finding.words


async def test_servers_that_answer_what_makes_no_sense() -> None:
    for script in (
        lambda request, at, source: refusal(request, 401),  # neither realm nor nonce
        lambda request, at, source: refusal(request, 401, {"REALM": "r" * 900, "NONCE": b"n" * 900}),
        truthful,  # a success without a relayed address
    ):
        finding = await ask_udp(script)
        assert finding.outcome == "failed"
        assert finding.details["reachable"] is True


async def test_a_dead_server(dead_port: int) -> None:
    finding = await ask(f"turn:127.0.0.1:{dead_port}")
    assert finding.outcome == "failed"
    assert ": nothing answers" in finding.words
    assert finding.details["reachable"] is False


async def test_dtls_is_said_not_to_be_spoken() -> None:
    finding = await ask("turns:127.0.0.1?transport=udp")
    assert finding.outcome == "failed"
    assert "DTLS" in finding.words


# -- certificates --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("certificate", "words"),
    [
        ({"days": -1}, "its certificate has expired"),
        ({"self_signed": True}, "its certificate is self-signed"),
        ({"host": "192.0.2.9"}, "its certificate is for another address"),
    ],
)
async def test_a_bad_certificate_is_said_in_words(
    authority: Authority, certificate: dict[str, object], words: str
) -> None:
    turn = FakeTurn()
    async with stream_server(turn, authority.server(**certificate)) as (host, port):  # type: ignore[arg-type]
        finding = await ask(f"turns:{host}:{port}", tls=authority.client())
    assert finding.outcome == "failed"
    assert words in finding.words
    assert "certificate" in finding.advice


async def test_an_authority_that_is_not_trusted(authority: Authority) -> None:
    async with stream_server(FakeTurn(), authority.server()) as (host, port):
        finding = await ask(f"turns:{host}:{port}")
    assert "authority that this machine does not trust" in finding.words


async def test_a_good_certificate(authority: Authority) -> None:
    async with stream_server(FakeTurn(), authority.server()) as (host, port):
        finding = await ask(f"turns:{host}:{port}", tls=authority.client())
    assert finding.outcome == "ok"
    assert finding.details["transport"] == "tls"


async def test_tls_where_none_is_spoken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duetlink.net.stun.wire.CONNECT_TIMEOUT_S", 0.2)

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-hello\r\n")
        await reader.read()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(100):
            pass

    for serve, words in (
        (greet, "not speak TLS there (WRONG"),
        (wait, "not speak TLS there (no answer)"),
    ):
        async with bytes_server(serve) as (host, port):
            finding = await ask(f"turns:{host}:{port}")
        assert finding.outcome == "failed"
        assert words in finding.words


# -- STUN ----------------------------------------------------------------------------------------------------


async def test_a_stun_server_that_answers() -> None:
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
        finding = await ask(f"stuns:{host}:{port}", tls=authority.client())
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


async def test_a_name_that_was_not_resolved() -> None:
    finding = await ask("stun:stun.example.org", resolved=NameUnresolved("the name is misspelt"))
    assert (finding.outcome, finding.words) == (
        "failed",
        "stun:stun.example.org:3478 by UDP: the name is misspelt.",
    )


async def test_the_address_that_works_is_enough() -> None:
    async with udp_server(truthful) as (_, (_, port)):
        finding = await ask(f"stun:stun.example.org:{port}", resolved=["::1", "127.0.0.1"])
    assert finding.outcome == "ok"


# -- UDP as a whole ------------------------------------------------------------------------------------------


def server(kind: str, transport: str, outcome: str, reachable: bool) -> Finding:
    details = {"url": "u", "transport": transport, "reachable": reachable}
    return Finding(kind, outcome, "", "", details)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("servers", "outcome", "words"),
    [
        ([], "unknown", "no STUN server is configured"),
        ([server("turn", "tcp", "ok", True)], "unknown", "no STUN server is configured"),
        ([server("stun", "udp", "ok", True)], "ok", "UDP goes out"),
        (
            [server("turn", "udp", "failed", True)],
            "ok",
            "UDP goes out",
        ),  # refused, so it was reached
        ([server("stun", "udp", "failed", False), server("stun", "udp", "ok", True)], "ok", "UDP goes out"),
        ([server("stun", "udp", "failed", False)], "failed", "blocked, or none of them is up"),
        (
            [server("stun", "udp", "failed", False), server("turn", "tls", "ok", True)],
            "failed",
            "UDP is blocked",
        ),
        ([server("stun", "", "failed", False)], "unknown", "no STUN server is configured"),
    ],
)
def test_whether_udp_goes_out(servers: list[Finding], outcome: str, words: str) -> None:
    finding = udp_finding(servers)
    assert finding.outcome == outcome
    assert words in finding.words


# -- words ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("username", "expired"),
    [
        ("1763700000:ada", "23 hours"),
        ("1763700000", "23 hours"),
        ("1763999999:ada", None),  # still good
        ("ada", None),
        ("176370000:ada", None),
        ("١٧٦٣٧٠٠٠٠٠:ada", None),
        (None, None),
    ],
)
def test_expiry_is_read_of_user_names_that_tell_it(username: str | None, expired: str | None) -> None:
    _, words, _ = refusal_words(401, "", username, 1763700000.0 + 23.5 * 3600, signed=True)
    assert (f"expired {expired} ago" in words) if expired else ("is wrong, or they have expired" in words)


def test_a_servers_reason_is_cut() -> None:
    assert len(refusal_words(699, "x" * 10_000, "u", 0.0, signed=True)[1]) < 200
