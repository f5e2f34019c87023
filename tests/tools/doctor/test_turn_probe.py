"""What is said of each TURN URL: every refusal told apart, every certificate trouble in words."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable

import pytest
from aioice import stun

from duetlink.net.stun.server_url import ServerUrl
from duetlink.settings import IceServer
from duetlink.tools.doctor.finding import Finding
from duetlink.tools.doctor.resolver import Resolver
from duetlink.tools.doctor.turn_client import TurnRefused
from duetlink.tools.doctor.turn_probe import probe_turn
from duetlink.tools.doctor.turn_refusal import refusal_words

from .conftest import Authority
from .fake_server import Address, FakeTurn, bytes_server, refusal, reply, stream_server, truthful, udp_server


async def ask(
    url: str, username: str | None = "u", credential: str | None = "p", tls: ssl.SSLContext | None = None
) -> Finding:
    parsed = ServerUrl.parse(url, IceServer((url,), username, credential))
    return await probe_turn(parsed, Resolver(timeout_s=0.2), tls or ssl.create_default_context())


async def ask_udp(script: Callable[..., bytes | None], *credentials: str | None) -> Finding:
    async with udp_server(script) as (_, (host, port)):
        return await ask(f"turn:{host}:{port}", *credentials)


# -- what works ----------------------------------------------------------------------------------------------


async def test_a_relay_is_tried_and_released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duetlink.tools.doctor.turn_probe.RELAY_TIMEOUT_S", 30.0)  # it does answer
    turn = FakeTurn()
    finding = await ask_udp(turn)
    assert finding.outcome == "ok"
    assert " by UDP relays, there and back in " in finding.words
    assert finding.words.endswith("; credentials accepted.")
    assert finding.details["credentials"] == "accepted"
    assert finding.details["relay_round_trip_s"] > 0
    assert finding.details["tcp_allocations"] is None
    assert turn.allocations == 0


@pytest.mark.parametrize("supported", [True, False])
async def test_tcp_allocations_are_asked_for_over_streams(supported: bool) -> None:
    turn = FakeTurn()
    turn.tcp_allocations = supported
    async with stream_server(turn) as (host, port):
        finding = await ask(f"turn:{host}:{port}?transport=tcp")
    assert finding.outcome == "ok"
    assert finding.details["tcp_allocations"] is supported
    assert ("TCP (RFC 6062) as well" in finding.words) is supported
    assert turn.allocations == 0


async def test_a_relay_that_lets_nothing_through_to_itself_is_a_relay_all_the_same() -> None:
    silent = FakeTurn(echo=False)
    forbids = FakeTurn({stun.Method.CREATE_PERMISSION: 403})
    for turn in (silent, forbids):
        finding = await ask_udp(turn)
        assert finding.outcome == "ok"
        assert finding.details["relay_round_trip_s"] is None
        assert turn.allocations == 0


async def test_a_nonce_that_has_become_stale_is_replaced() -> None:
    turn = FakeTurn()
    turn.stale_answers = 1
    assert (await ask_udp(turn)).outcome == "ok"


async def test_a_server_without_credentials() -> None:
    def free(request: stun.Message, at: Address, source: Address) -> bytes:
        return bytes(reply(request, {"XOR-RELAYED-ADDRESS": ("127.0.0.1", 5), "LIFETIME": 60}))

    finding = await ask_udp(free, None, None)
    assert finding.outcome == "ok"
    assert "asks for no credentials" in finding.words


# -- what does not -------------------------------------------------------------------------------------------


async def test_wrong_credentials() -> None:
    for credentials in (("u", "wrong"), ("nobody", "p")):
        finding = await ask_udp(FakeTurn(), *credentials)
        assert finding.outcome == "failed"
        assert "refuses the credentials (401): user name or password is wrong" in finding.words
        assert finding.details["credentials"] == "refused"


async def test_missing_credentials() -> None:
    finding = await ask_udp(FakeTurn(), None, None)
    assert finding.outcome == "failed"
    assert "wants credentials (401), and none are configured" in finding.words
    assert finding.details["credentials"] == "missing"


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
    assert "cannot be used: nothing answers" in finding.words
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
    monkeypatch.setattr("duetlink.tools.doctor.stream_wire.CONNECT_TIMEOUT_S", 0.2)

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
    refused = TurnRefused(401, "", authenticated=True)
    _, words, _ = refusal_words(refused, username, 1763700000.0 + 23.5 * 3600)
    assert (f"expired {expired} ago" in words) if expired else ("is wrong, or they have expired" in words)


def test_a_servers_reason_is_cut() -> None:
    refused = TurnRefused(699, "x" * 10_000, authenticated=True)
    assert len(refusal_words(refused, "u", 0.0)[1]) < 200
