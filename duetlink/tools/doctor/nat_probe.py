"""Observing the NAT from inside, as RFC 5780 §4.3 says.

One port asks a server's two addresses where it is seen from; two servers with one address show it as well.
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
    """How this machine, whose addresses are `own`, is seen by the configured servers."""
    if not servers:
        words = "There is no server to measure the NAT with."
        return Finding("nat", "unknown", words, "configure a STUN server")
    nat = await measure_nat(servers, own)
    if nat is None:
        return Finding("nat", "unknown", "No server answered, so the NAT was not measured.", "see udp")
    return nat.finding()


async def measure_nat(servers: Sequence[Address], own: Sequence[str]) -> Nat | None:
    """Ask STUN servers, all of one family, about this machine, whose addresses are `own`. None: none answers.

    Takes some 4 s at most. Raises OSError where there is no socket to be had.
    """
    wire = await UdpWire.open(servers[0])
    try:
        seen = await _ask_all(wire, servers)
        # a server on this side of the NAT sees none of it
        outside = [one for one in seen if one.mapped[0] not in own]
        seen = outside or seen
        if not seen:
            return None
        others = [((one.other[0], one.server[1]), one.other) for one in seen if one.other is not None]
        if others:
            seen += await _ask_all(wire, others[0])
        mapping = mapping_of(seen) if outside else "endpoint-independent"
        return Nat(bool(outside), mapping, seen[0].mapped)
    finally:
        wire.close()


async def _ask_all(wire: UdpWire, servers: Sequence[Address]) -> list[Observation]:
    """What the answers say that tell where this machine is seen."""
    asked = await asyncio.gather(
        *(wire.ask(binding_request(), server) for server in servers), return_exceptions=True
    )
    answers = [one for one in asked if isinstance(one, Answer)]
    return [
        Observation(one.source, mapped, other_address(one))
        for one in answers
        if (mapped := mapped_address(one.message)) is not None
    ]


def other_address(answer: Answer) -> Address | None:
    """The server's other address and port, where they serve for the tests of RFC 5780."""
    attributes = answer.message.attributes
    other = attributes.get("OTHER-ADDRESS", attributes.get("CHANGED-ADDRESS"))  # the latter in RFC 3489
    if other is None or other[0] == answer.source[0] or other[1] in (0, answer.source[1]):
        return None
    here, there = ipaddress.ip_address(answer.source[0]), ipaddress.ip_address(other[0])
    # the server chooses whom this machine sends to: a host of the same kind, nobody else
    same_kind = here.version == there.version and all(
        getattr(here, kind) == getattr(there, kind)
        for kind in ("is_loopback", "is_private", "is_link_local", "is_multicast", "is_unspecified")
    )
    return (other[0], other[1]) if same_kind else None
