"""Asking each STUN URL for an answer, and how long that takes."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass

from aioice import stun

from duetlink.net.stun.server_url import ServerUrl
from duetlink.tools.doctor.finding import Finding, foreign
from duetlink.tools.doctor.message import Address, binding_request, mapped_address
from duetlink.tools.doctor.resolver import NameUnresolved, Resolver
from duetlink.tools.doctor.stream_wire import StreamWire
from duetlink.tools.doctor.trouble import trouble
from duetlink.tools.doctor.udp_wire import UdpWire
from duetlink.tools.doctor.wire import Wire

_ROUNDS = 3  # the least of so many round trips is told


@dataclass(frozen=True, slots=True)
class _Outcome:
    """One address of a server: how long it took, or what went wrong."""

    address: str
    round_trip_s: float | None = None
    mapped: Address | None = None
    software: str = ""
    trouble: str = ""
    advice: str = ""


async def probe_stun(url: ServerUrl, resolver: Resolver, tls: ssl.SSLContext) -> Finding:
    """What becomes of Binding requests to `url`. Never raises for what a network or server does."""
    details: dict[str, object] = {"url": url.location, "transport": url.transport}
    if url.transport == "dtls":
        return Finding("stun", "failed", f"{url}: DTLS is not spoken here.", "use stun: or stuns:", details)
    try:
        addresses = await resolver.addresses(url.host)
    except NameUnresolved as error:
        return Finding(
            "stun", "failed", f"{url}: {error}.", "check the name, and this machine's DNS", details
        )
    outcomes = await asyncio.gather(*(_probe(url, address, tls) for address in addresses))
    details["addresses"] = {
        one.address: {"round_trip_s": one.round_trip_s, "trouble": one.trouble, "mapped": one.mapped}
        for one in outcomes
    }
    answered = [one for one in outcomes if one.round_trip_s is not None]
    if not answered:
        return Finding("stun", "failed", f"{url}: {outcomes[0].trouble}.", outcomes[0].advice, details)
    best = min(answered, key=lambda one: one.round_trip_s or 0.0)
    details |= {"round_trip_s": best.round_trip_s, "software": best.software}
    words = f"{url} answers in {1000 * (best.round_trip_s or 0.0):.1f} ms"
    silent = [one for one in outcomes if one.round_trip_s is None]
    if silent and len(outcomes) > 1:
        words += f" (not at {silent[0].address}: {silent[0].trouble})"
    return Finding("stun", "ok", f"{words}.", "", details)


async def _probe(url: ServerUrl, address: str, tls: ssl.SSLContext) -> _Outcome:
    to = (address, url.port)
    try:
        wire: Wire
        if url.transport == "udp":
            wire = await UdpWire.open(to, connected=True)
        else:
            wire = await StreamWire.open(to, tls if url.transport == "tls" else None, url.host)
        try:
            answers = [await wire.ask(binding_request(), to) for _ in range(_ROUNDS)]
        finally:
            wire.close()
    except (OSError, TimeoutError) as error:
        words, advice = trouble(error)
        return _Outcome(address, trouble=words, advice=advice)
    first = answers[0].message
    if first.message_class != stun.Class.RESPONSE:
        words = f"it refuses Binding requests ({first.error_code})"
        return _Outcome(address, trouble=words, advice="is it a STUN server for everybody?")
    # an answer to a request that was sent twice tells no exact time
    exact = [one for one in answers if one.sendings == 1] or answers
    software = foreign(str(first.attributes.get("SOFTWARE", "")))
    return _Outcome(address, min(one.round_trip_s for one in exact), mapped_address(first), software)
