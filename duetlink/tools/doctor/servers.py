"""Tries each STUN and TURN URL like a link would, and finds out whether UDP leaves this network."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import Sequence
from typing import Any

from aioice import stun, turn

from duetlink.net.stun.address import Address
from duetlink.net.stun.message import binding_request, mapped_address, read_message
from duetlink.net.stun.server_url import ServerUrl
from duetlink.net.stun.trouble import foreign, refusal, trouble
from duetlink.net.stun.wire import StreamWire, StunSocket, UdpWire, dial
from duetlink.tools.doctor.finding import Finding
from duetlink.tools.doctor.names import NameUnresolved, Resolved

ALLOCATE_TIMEOUT_S = 3.0
_RELEASE_TIMEOUT_S = 0.5
_LIFETIME_S = 60  # of an allocation; short, in case this side ends before it releases it
_ROUNDS = 3  # round trips that are measured; the report has the shortest


async def probe_server(url: ServerUrl, resolved: Resolved, tls: ssl.SSLContext) -> Finding:
    """Send Binding requests to a STUN server, or make an allocation at a TURN server, and report the result.

    Addresses are tried until one answers. Faults of a network or server raise nothing.
    """
    details: dict[str, Any] = {"url": url.location, "transport": url.transport, "reachable": False}

    def failed(words: str, advice: str) -> Finding:
        return Finding(url.kind, "failed", f"{url}: {words}.", advice, details)

    if url.transport == "dtls":
        return failed("DTLS is not spoken here", "use stuns: or turns: without ?transport=udp")
    if isinstance(resolved, NameUnresolved):
        return failed(str(resolved), "check the name, and this machine's DNS")
    probe = _stun if url.kind == "stun" else _turn
    words = advice = ""
    for address in resolved:
        try:
            return await probe(url, (address, url.port), tls, details)
        except OSError as error:
            words, advice = trouble(error)
    return failed(words, advice)


async def _stun(url: ServerUrl, to: Address, tls: ssl.SSLContext, details: dict[str, Any]) -> Finding:
    wire: StunSocket
    if url.transport == "udp":
        wire = await UdpWire.open(to, connected=True)
    else:
        wire = await dial(StreamWire, to, tls if url.transport == "tls" else None, url.host)
    try:
        answers = [await wire.ask(binding_request(), to) for _ in range(_ROUNDS)]
    finally:
        wire.close()
    details["reachable"] = True
    first = answers[0].message
    if first.message_class != stun.Class.RESPONSE:
        words = f"{url}: it refuses Binding requests ({first.error_code})."
        return Finding("stun", "failed", words, "check that it is a public STUN server", details)
    # a request that was sent twice gives no exact round-trip time
    best_s = min(one.round_trip_s for one in [one for one in answers if one.sendings == 1] or answers)
    details |= {
        "round_trip_s": best_s,
        "mapped": mapped_address(first),
        "software": foreign(str(first.attributes.get("SOFTWARE", ""))),
    }
    return Finding("stun", "ok", f"{url} answers in {1000 * best_s:.1f} ms.", "", details)


class _Checked:
    """Passes only well-formed messages to aioice, and remembers whether any arrived."""

    heard = False

    def datagram_received(self, data: bytes | str, addr: tuple[str, int]) -> None:
        assert isinstance(data, bytes)
        if turn.is_channel_data(data[:1] or b"\0") or read_message(data) is not None:
            self.heard = True
            super().datagram_received(data, addr)  # type: ignore[misc]

    def send_stun(self, message: stun.Message, addr: tuple[str, int]) -> None:
        self._send(bytes(message))  # type: ignore[attr-defined]  # aioice's own logs the user name


class _UdpClient(_Checked, turn.TurnClientUdpProtocol):
    pass


class _StreamClient(_Checked, turn.TurnClientTcpProtocol):
    pass


async def _turn(url: ServerUrl, to: Address, tls: ssl.SSLContext, details: dict[str, Any]) -> Finding:
    client = await _open_client(url, to, tls)
    try:
        async with asyncio.timeout(ALLOCATE_TIMEOUT_S):
            relayed = await client.connect()
        with contextlib.suppress(stun.TransactionError, OSError):
            async with asyncio.timeout(_RELEASE_TIMEOUT_S):
                await client.delete()
    except stun.TransactionFailed as error:
        code, reason = error.response.attributes.get("ERROR-CODE", (0, "no code given"))
        details |= {"reachable": True, "error_code": code}
        signed = client.integrity_key is not None
        outcome, words, advice = refusal(code, reason, url.username, time.time(), signed=signed)
        return Finding("turn", outcome, f"{url} answers, but {words}.", advice, details)
    except OSError:
        if not client.heard:
            raise
        details["reachable"] = True
        words = f"{url} answers, but its answer is not signed with these credentials, or is malformed."
        return Finding("turn", "failed", words, "check that the URL is that of your TURN server", details)
    finally:
        client.transport.abort()
        if client.refresh_task is not None:
            client.refresh_task.cancel()
    credentials = "accepted" if client.integrity_key is not None else "not needed"
    details |= {"reachable": True, "credentials": credentials, "relayed_address": relayed[0]}
    words = "credentials accepted" if credentials == "accepted" else "asks for no credentials"
    return Finding("turn", "ok", f"{url} relays; {words}.", "", details)


async def _open_client(url: ServerUrl, to: Address, tls: ssl.SSLContext) -> _UdpClient | _StreamClient:
    of_user = (to, url.username, url.credential, _LIFETIME_S, turn.DEFAULT_CHANNEL_REFRESH_TIME)
    if url.transport == "udp":
        loop = asyncio.get_running_loop()
        _, client = await loop.create_datagram_endpoint(lambda: _UdpClient(*of_user), remote_addr=to)
        return client
    secure = tls if url.transport == "tls" else None
    return await dial(lambda: _StreamClient(*of_user), to, secure, url.host)


def udp_finding(servers: Sequence[Finding]) -> Finding:
    """Conclude from the findings about all servers whether UDP leaves this network."""
    by_udp = [server for server in servers if server.details["transport"] == "udp"]
    answered = sum(server.details["reachable"] for server in by_udp)
    by_tcp = sum(server.details["reachable"] for server in servers) - answered
    details = {"asked": len(by_udp), "answered": answered, "answered_by_tcp": by_tcp}
    if answered:
        return Finding("udp", "ok", "UDP goes out, and answers come back.", "", details)
    if not by_udp:
        words = "No server was tried by UDP: no STUN server is configured."
        advice = 'set DUETLINK_ICE_SERVERS, such as \'[{"urls": "stun:stun.example.org"}]\''
        return Finding("udp", "unknown", words, advice, details)
    if by_tcp:
        words = "UDP is blocked: servers answer by TCP, none by UDP."
        advice = (
            "have UDP allowed, which is faster; a TURN server over TCP or TLS can carry the link meanwhile"
        )
    else:
        words = "No server answers by UDP: it is blocked, or none of them is up."
        advice = (
            "try a server that is known to be up; a TURN server over TLS on port 443 passes most firewalls"
        )
    return Finding("udp", "failed", words, advice, details)
