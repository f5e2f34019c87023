"""What the NAT does to TCP, which decides about hole punching: it may treat TCP otherwise than UDP.

As by UDP (RFC 5780 §4.3), only by connections: several, from one local port, to different addresses, each
asked where it is seen from. Many STUN servers answer by TCP on the same port, coturn among them; where none
does, nothing is known. Whether the NAT resets a connection that comes from outside, which spoils punching as
well, cannot be seen from inside.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Sequence

from duetlink.tools.doctor.finding import Finding
from duetlink.tools.doctor.message import Address, binding_request, mapped_address
from duetlink.tools.doctor.nat import Behaviour, Observation, mapping_of
from duetlink.tools.doctor.nat_probe import other_address
from duetlink.tools.doctor.stream_wire import StreamWire, share_port
from duetlink.tools.doctor.wire import Answer


async def probe_tcp_nat(servers: Awaitable[list[Address]], own: Sequence[str]) -> Finding:
    """How this machine, whose addresses are `own`, is seen by TCP."""
    targets = await asyncio.shield(servers)
    answers = await _ask_all(targets) if targets else []
    if not answers:
        return Finding("nat tcp", "unknown", "No STUN server answers by TCP, so its NAT was not measured.")
    seen = [Observation(answer.source, _mapped(answer)) for answer in answers]
    outside = [one for one in seen if one.mapped[0] not in own]
    mapping = mapping_of(outside) if outside else "endpoint-independent"
    return _finding(bool(outside), mapping)


async def _ask_all(servers: Sequence[Address]) -> list[Answer]:
    """Answers that say where this machine is seen, all to questions from one port."""
    family = socket.AF_INET6 if ":" in servers[0][0] else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as reserved:
        share_port(reserved)
        reserved.bind(("", 0))
        port = int(reserved.getsockname()[1])
        answers = await asyncio.gather(*(_ask(server, port) for server in servers))
        for answer in answers:
            if answer is not None and (other := other_address(answer)) is not None:
                more = ((other[0], answer.source[1]), other)
                return [answer, *filter(None, await asyncio.gather(*(_ask(server, port) for server in more)))]
    return [answer for answer in answers if answer is not None]


async def _ask(server: Address, port: int) -> Answer | None:
    try:
        wire = await StreamWire.open(server, local_port=port)
        try:
            answer = await wire.ask(binding_request(), server)
        finally:
            wire.close()
    except OSError:
        return None
    return answer if mapped_address(answer.message) is not None else None


def _mapped(answer: Answer) -> Address:
    mapped = mapped_address(answer.message)
    assert mapped is not None  # _ask has dropped such
    return mapped


def _finding(translated: bool, mapping: Behaviour) -> Finding:
    details = {"translated": translated, "mapping": mapping}
    if not translated:
        return Finding("nat tcp", "ok", "No NAT by TCP either.", "", details)
    if mapping == "unknown":
        words = "Behind a NAT by TCP as well; one server alone does not show of which kind."
        return Finding("nat tcp", "unknown", words, "see nat", details)
    if mapping == "endpoint-independent":
        words = "By TCP the NAT shows every peer the same port, as hole punching wants it"
        return Finding("nat tcp", "ok", f"{words} (mapping {mapping}).", "", details)
    words = f"By TCP the NAT shows each peer another port (mapping {mapping}): no hole punching."
    return Finding("nat tcp", "limited", words, "", details)
