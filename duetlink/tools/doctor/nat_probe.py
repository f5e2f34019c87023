"""Observing the NAT from inside, as RFC 5780 §4.3 and §4.4 say.

One port asks a server's two addresses where it is seen from. Another port, which has asked the first address
only, has the server answer from elsewhere. A server with one address cannot do that; two such servers show
the mapping.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Sequence

from aioice import stun

from duetlink.net.stun.address import Address
from duetlink.net.stun.message import binding_request, mapped_address
from duetlink.net.stun.wire import Answer, UdpWire
from duetlink.tools.doctor.finding import Finding
from duetlink.tools.doctor.nat import Behaviour, Nat, Observation, mapping_of

# long enough for an answer by way of the server's other address; silence is the answer "filtered"
FILTER_TIMEOUT_S = 1.5
_CHANGE_PORT, _CHANGE_BOTH = 0x2, 0x6  # CHANGE-REQUEST, RFC 5780 §7.2


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

    Takes some 5 s at most. Raises OSError where there is no socket to be had.
    """
    wire = await UdpWire.open(servers[0])
    try:
        answers = await _ask_all(wire, servers)
        # a server on this side of the NAT sees none of it
        outside = [answer for answer in answers if _mapped(answer)[0] not in own]
        answers = outside or answers
        if not answers:
            return None
        observations = [Observation(answer.source, _mapped(answer)) for answer in answers]
        filtering: Behaviour = "unknown"
        full = next((answer for answer in answers if other_address(answer) is not None), None)
        if full is not None:
            others, filtering = await _with_two_addresses(wire, full)
            observations += others
        mapping = mapping_of(observations) if outside else "endpoint-independent"
        return Nat(bool(outside), mapping, filtering, observations[0].mapped)
    finally:
        wire.close()


async def _ask_all(wire: UdpWire, servers: Sequence[Address]) -> list[Answer]:
    """The answers that say where this machine is seen."""
    asked = await asyncio.gather(
        *(wire.ask(binding_request(), server) for server in servers), return_exceptions=True
    )
    return [one for one in asked if isinstance(one, Answer) and mapped_address(one.message) is not None]


def _mapped(answer: Answer) -> Address:
    mapped = mapped_address(answer.message)
    assert mapped is not None  # _ask_all has dropped such
    return mapped


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


async def _with_two_addresses(wire: UdpWire, answer: Answer) -> tuple[list[Observation], Behaviour]:
    other = other_address(answer)
    assert other is not None
    others, filtering = await asyncio.gather(
        _ask_all(wire, ((other[0], answer.source[1]), other)), _measure_filtering(answer.source)
    )
    # silence from a second address that nobody reaches says nothing about filters
    trusted = filtering if len(others) == 2 or filtering == "endpoint-independent" else "unknown"
    return [Observation(one.source, _mapped(one)) for one in others], trusted


async def _measure_filtering(server: Address) -> Behaviour:
    """From a port that has sent to `server` alone."""
    wire = await UdpWire.open(server)
    try:
        # the mapping must be there, or an answer that finds none would be taken for a filtered one
        await wire.ask(binding_request(), server)
        both, port = await asyncio.gather(
            *(_answered_from_elsewhere(wire, server, change) for change in (_CHANGE_BOTH, _CHANGE_PORT))
        )
    except (TimeoutError, OSError):
        return "unknown"
    finally:
        wire.close()
    if both:
        return "endpoint-independent"
    return "address-dependent" if port else "address-and-port-dependent"


async def _answered_from_elsewhere(wire: UdpWire, server: Address, change: int) -> bool:
    request = binding_request({"CHANGE-REQUEST": change})
    try:
        answer = await wire.ask(request, server, FILTER_TIMEOUT_S, from_anywhere=True)
    except TimeoutError:
        return False
    # a server that cannot do it answers with an error, or from where it is
    return answer.message.message_class == stun.Class.RESPONSE and answer.source != server
