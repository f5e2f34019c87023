"""Measures the mapping of the NAT from inside (RFC 5780 §4.3).

One local port asks a STUN server's two addresses for the outer address that they see. Two servers with one
address each serve as well.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Sequence

from duetlink.net.stun.address import Address
from duetlink.net.stun.message import binding_request, mapped_address
from duetlink.net.stun.wire import Answer, UdpWire
from duetlink.tools.doctor.finding import Finding
from duetlink.tools.doctor.nat import Nat, Observation, mapping_of


async def probe_nat(servers: Sequence[Address], own: Sequence[str]) -> Finding:
    """Measure the NAT with the configured servers. `own` are this machine's addresses."""
    if not servers:
        words = "There is no server to measure the NAT with."
        return Finding("nat", "unknown", words, "configure a STUN server")
    nat = await measure_nat(servers, own)
    if nat is None:
        return Finding("nat", "unknown", "No server answered, so the NAT was not measured.", "see udp")
    return nat.finding()


async def measure_nat(servers: Sequence[Address], own: Sequence[str]) -> Nat | None:
    """Measure the NAT with STUN servers of one address family; None if no server answers.

    `own` are this machine's addresses. Takes at most about 4 s. Raises OSError if no socket can be opened.
    """
    wire = await UdpWire.open(servers[0])
    try:
        seen = await _ask_all(wire, servers)
        # a server on this side of the NAT sees the machine's own address
        outside = [each for each in seen if each.mapped[0] not in own]
        seen = outside or seen
        if not seen:
            return None
        others = [((each.other[0], each.server[1]), each.other) for each in seen if each.other is not None]
        if others:
            seen += await _ask_all(wire, others[0])
        mapping = mapping_of(seen) if outside else "endpoint-independent"
        return Nat(bool(outside), mapping, seen[0].mapped)
    finally:
        wire.close()


async def _ask_all(wire: UdpWire, servers: Sequence[Address]) -> list[Observation]:
    """Ask all servers in parallel, and return the observations of those that answer."""
    asked = await asyncio.gather(
        *(wire.ask(binding_request(), server) for server in servers), return_exceptions=True
    )
    answers = [each for each in asked if isinstance(each, Answer)]
    return [
        Observation(answer.source, mapped, other_address(answer))
        for answer in answers
        if (mapped := mapped_address(answer.message)) is not None
    ]


def other_address(answer: Answer) -> Address | None:
    """Return the server's other address and port; None if they are unsuitable for the tests of RFC 5780."""
    attributes = answer.message.attributes
    other = attributes.get("OTHER-ADDRESS", attributes.get("CHANGED-ADDRESS"))  # the latter in RFC 3489
    if other is None or other[0] == answer.source[0] or other[1] in (0, answer.source[1]):
        return None
    here, there = ipaddress.ip_address(answer.source[0]), ipaddress.ip_address(other[0])
    # the server decides where this machine sends next, so only a host of the same kind is accepted
    same_kind = here.version == there.version and all(
        getattr(here, kind) == getattr(there, kind)
        for kind in ("is_loopback", "is_private", "is_link_local", "is_multicast", "is_unspecified")
    )
    return (other[0], other[1]) if same_kind else None
