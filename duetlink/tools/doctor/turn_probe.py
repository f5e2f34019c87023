"""Trying each TURN URL as a link would: reach it, allocate, send a packet through, ask for TCP as well."""

from __future__ import annotations

import contextlib
import ssl
import time
from dataclasses import dataclass

from duetlink.net.stun.server_url import ServerUrl
from duetlink.tools.doctor.finding import Finding, Outcome
from duetlink.tools.doctor.message import Address
from duetlink.tools.doctor.resolver import NameUnresolved, Resolver
from duetlink.tools.doctor.stream_wire import StreamWire
from duetlink.tools.doctor.trouble import trouble
from duetlink.tools.doctor.turn_client import TurnClient, TurnRefused, TurnUntrusted
from duetlink.tools.doctor.turn_refusal import refusal_words
from duetlink.tools.doctor.udp_wire import UdpWire
from duetlink.tools.doctor.wire import Wire

RELAY_TIMEOUT_S = 1.5


@dataclass(slots=True)
class _Progress:
    """How far a probe came; becomes the finding's details."""

    url: str
    transport: str
    reachable: bool = False
    credentials: str = "unknown"  # accepted, refused, missing, not needed
    relayed_address: str | None = None
    round_trip_s: float | None = None
    relay_round_trip_s: float | None = None
    tcp_allocations: bool | None = None  # RFC 6062
    error_code: int | None = None

    def finding(self, outcome: Outcome, words: str, advice: str = "") -> Finding:
        details = {name: getattr(self, name) for name in self.__slots__}
        return Finding("turn", outcome, f"{self.url} by {self.transport.upper()} {words}.", advice, details)


async def probe_turn(url: ServerUrl, resolver: Resolver, tls: ssl.SSLContext) -> Finding:
    """What becomes of an allocation at `url`. Never raises for what a network or server does."""
    progress = _Progress(url.location, url.transport)
    if url.transport == "dtls":
        return progress.finding("failed", "asks for DTLS, which is not spoken here", "use turns: without it")
    try:
        addresses = await resolver.addresses(url.host)
    except NameUnresolved as error:
        return progress.finding("failed", f"was not asked: {error}", "check the name, and this machine's DNS")
    to = (addresses[0], url.port)
    try:
        wire = await _open(url, to, tls)
        try:
            return await _allocate(url, wire, to, tls, progress)
        finally:
            wire.close()
    except OSError as error:
        words, advice = trouble(error)
        return progress.finding("failed", f"cannot be used: {words}", advice)


async def _open(url: ServerUrl, to: Address, tls: ssl.SSLContext) -> Wire:
    if url.transport == "udp":
        return await UdpWire.open(to, connected=True)
    return await StreamWire.open(to, tls if url.transport == "tls" else None, url.host)


async def _allocate(
    url: ServerUrl, wire: Wire, to: Address, tls: ssl.SSLContext, progress: _Progress
) -> Finding:
    client = TurnClient(wire, to, url.username, url.credential)
    try:
        relayed = await client.allocate("udp")
    except TurnRefused as refused:
        progress.reachable, progress.error_code = True, refused.code
        outcome, words, advice = refusal_words(refused, url.username, time.time())
        if refused.code in (401, 441):
            progress.credentials = "refused" if refused.authenticated else "missing"
        elif refused.authenticated:
            progress.credentials = "accepted"
        return progress.finding(outcome, f"answers, but {words}", advice)
    except TurnUntrusted as untrusted:
        progress.reachable = True
        return progress.finding("failed", f"answers, but {untrusted}", "is it the server that you mean?")
    progress.reachable = True
    progress.credentials = "accepted" if client.needs_credentials else "not needed"
    progress.relayed_address, progress.round_trip_s = relayed[0], client.round_trip_s
    # many servers forbid peers in their own network; that is no fault
    with contextlib.suppress(TurnRefused, TurnUntrusted, OSError):
        progress.relay_round_trip_s = await client.relay_round_trip(relayed, RELAY_TIMEOUT_S)
    await client.release()
    if url.transport != "udp":  # RFC 6062 §4.1: only over TCP and TLS
        progress.tcp_allocations = await _allows_tcp(url, to, tls)
    return progress.finding("ok", _success(progress))


async def _allows_tcp(url: ServerUrl, to: Address, tls: ssl.SSLContext) -> bool | None:
    try:
        wire = await _open(url, to, tls)
    except OSError:
        return None
    try:
        client = TurnClient(wire, to, url.username, url.credential)
        await client.allocate("tcp")
        await client.release()
        return True
    except TurnRefused as refused:
        # 442: unsupported transport (RFC 8656 §18); older servers say 400 or 403
        return False if refused.code in (400, 403, 442) else None
    except (TurnUntrusted, OSError):
        return None
    finally:
        wire.close()


def _success(progress: _Progress) -> str:
    words = "relays"
    if progress.relay_round_trip_s is not None:
        words += f", there and back in {1000 * progress.relay_round_trip_s:.1f} ms"
    words += "; credentials accepted" if progress.credentials == "accepted" else "; asks for no credentials"
    if progress.tcp_allocations is not None:
        words += "; TCP (RFC 6062) as well" if progress.tcp_allocations else "; no TCP allocations (RFC 6062)"
    return words
