"""Finds out which of the configured STUN and TURN servers answer now.

aiortc uses only the first STUN and the first TURN URL that it gets, and waits 5 s for a dead one. So every
URL is probed first, all at once and within a time limit, and aiortc gets the first of each kind that
answered. A dead first URL then hides no second one.
"""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass

from aiortc import RTCIceServer
from aiortc.rtcicetransport import parse_stun_turn_uri

from duetlink.net.stun.message import binding_request
from duetlink.net.stun.wire import UdpWire
from duetlink.settings import IceServer

# the kinds that aiortc supports; it silently ignores others
_SUPPORTED = {("stun", None), ("stun", "udp"), ("turn", "udp"), ("turn", "tcp"), ("turns", "tcp")}


@dataclass(frozen=True, slots=True)
class ProbedServer:
    """One URL, and True if its server answered."""

    url: str
    reachable: bool


async def choose_ice_servers(
    servers: tuple[IceServer, ...], timeout_s: float
) -> tuple[list[RTCIceServer], list[ProbedServer]]:
    """Return the servers to give to aiortc (at most one STUN and one TURN), and the result for each URL.

    Takes at most `timeout_s`, and no time if there are no servers.
    """
    urls = [(server, url) for server in servers for url in server.urls]
    answers = await asyncio.gather(*(_answers(url, timeout_s) for _, url in urls))
    chosen: dict[str, RTCIceServer] = {}
    probed: list[ProbedServer] = []
    for (server, url), reachable in zip(urls, answers, strict=True):
        probed.append(ProbedServer(url, reachable))
        kind = url[:4]  # "stun" also for stuns:, "turn" also for turns:
        if reachable and kind not in chosen:
            chosen[kind] = RTCIceServer(urls=url, username=server.username, credential=server.credential)
    return list(chosen.values()), probed


async def _answers(url: str, timeout_s: float) -> bool:
    try:
        parsed = parse_stun_turn_uri(url)
    except ValueError:
        return False
    if (parsed["scheme"], parsed.get("transport")) not in _SUPPORTED:
        return False
    host, port = parsed["host"], parsed["port"]
    try:
        async with asyncio.timeout(timeout_s):
            if parsed.get("transport") == "tcp" or parsed["scheme"] in ("stuns", "turns"):
                _, writer = await asyncio.open_connection(host, port)
                writer.close()
                return True
            return await _answers_binding(host, port, timeout_s)
    except (OSError, TimeoutError):
        return False


async def _answers_binding(host: str, port: int, timeout_s: float) -> bool:
    """Return True if there is an answer to a Binding request, success or error.

    Raises TimeoutError or OSError.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    to = str(found[0][4][0]), port
    wire = await UdpWire.open(to, connected=True)
    try:
        await wire.ask(binding_request(), to, timeout_s)
    finally:
        wire.close()
    return True
