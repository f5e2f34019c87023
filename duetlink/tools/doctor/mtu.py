"""The largest packet that gets to a server in one piece, found by sending some.

Theory. As in RFC 8899 (DPLPMTUD): padded Binding requests that must not be fragmented; an answer says that
this size gets through, silence says little, so each size is tried several times. ICMP is not needed, and not
trusted. All sizes of a round go out together, and the next round looks between the largest answered and the
smallest unanswered one. The padding is SOFTWARE, which every server passes over: PADDING (RFC 5780 §7.6)
would be refused by most. Answers are small: it is the way there that is measured.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Sequence

from duetlink.tools.doctor.finding import Finding
from duetlink.tools.doctor.message import HEADER_BYTES, Address, binding_request
from duetlink.tools.doctor.udp_wire import UdpWire, forbid_fragments

# what common links carry: IPv6's least, VPNs, LTE, PPPoE, Ethernet, jumbo frames
COMMON_MTUS = (576, 1280, 1340, 1380, 1400, 1420, 1440, 1460, 1480, 1492, 1500, 4000, 9000)
# IPv6's least (RFC 8200 §5), which DTLS and QUIC build on; the tunnel starts there and finds more itself
WANTED_MTU_BYTES = 1280
TRY_TIMEOUT_S = 1.5
_MAX_SERVERS = 4
_ROUND = 8  # sizes between two that are tried at once
_IP_MTU, _IPV6_MTU = 14, 24  # linux/in.h, linux/in6.h
_SOFTWARE, _ATTRIBUTE_BYTES, _MAX_SOFTWARE_BYTES = 0x8022, 4, 760


async def probe_mtu(servers: Awaitable[list[Address]]) -> Finding:
    """The largest packet towards the configured servers: the least of what each lets through."""
    targets = (await asyncio.shield(servers))[:_MAX_SERVERS]
    if not targets:
        advice = "configure a STUN server"
        return Finding("mtu", "unknown", "There is no server to send packets of many sizes to.", advice)
    try:
        measured = await asyncio.gather(*(measure_mtu(target) for target in targets))
    except OSError as error:
        why = error.strerror or str(error)
        return Finding("mtu", "unknown", f"Packets of many sizes cannot be sent from here: {why}.")
    known = {target[0]: mtu for target, mtu in zip(targets, measured, strict=True) if mtu is not None}
    if not known:
        return Finding("mtu", "unknown", "No server answered packets of any size.", "see udp")
    host, mtu_bytes = min(known.items(), key=lambda item: item[1])
    details = {"mtu_bytes": mtu_bytes, "servers": known, "wanted_bytes": WANTED_MTU_BYTES}
    at_least = "at least " if mtu_bytes == COMMON_MTUS[-1] else ""
    words = f"Packets of {at_least}{mtu_bytes:,} bytes get to {host} in one piece."
    if mtu_bytes >= WANTED_MTU_BYTES:
        return Finding("mtu", "ok", words, "", details)
    return Finding(
        "mtu",
        "limited",
        f"{words} The internet promises {WANTED_MTU_BYTES:,}; WebRTC may not connect at all.",
        "a VPN or tunnel on the way takes too much of each packet: set its MTU, or use TURN over TCP",
        details,
    )


async def measure_mtu(server: Address) -> int | None:
    """Bytes of the largest IP packet that `server` answers, at most 9000; None if it answers none.

    Exact to 4 bytes. Raises OSError where this system cannot forbid fragments.
    """
    ceiling = min(_first_hop_mtu(server), COMMON_MTUS[-1]) // 4 * 4
    wire = await UdpWire.open(server, dont_fragment=True)
    try:
        sizes: Sequence[int] = [size for size in COMMON_MTUS if size < ceiling] + [ceiling]
        passed, failed = 0, ceiling + 4
        while sizes:
            answers = await asyncio.gather(*(_passes(wire, server, size) for size in sizes))
            passed = max([passed, *(size for size, answer in zip(sizes, answers, strict=True) if answer)])
            if not passed:
                return None
            failed = min([failed, *(size for size in sizes if size > passed)])
            sizes = between(passed, failed)
        return passed
    finally:
        wire.close()


def between(passed: int, failed: int) -> list[int]:
    """At most `_ROUND` sizes to try next, multiples of 4 above `passed` and below `failed`."""
    inner = range(passed + 4, failed, 4)
    step = -(-len(inner) // _ROUND) or 1
    return list(inner[step - 1 :: step]) or list(inner[:1])


def padded_request(packet_bytes: int, header_bytes: int) -> bytes:
    """A Binding request that makes an IP packet of `packet_bytes` with `header_bytes` of IP and UDP.

    Raises ValueError for a size that no request has: STUN messages are multiples of 4.
    """
    request = binding_request()
    missing = packet_bytes - header_bytes - len(request)
    if missing < 0 or missing % 4:
        raise ValueError(f"a STUN request cannot make a packet of {packet_bytes} bytes")
    body = b""
    while missing:
        size = min(missing - _ATTRIBUTE_BYTES, _MAX_SOFTWARE_BYTES)
        body += struct.pack("!HH", _SOFTWARE, size) + b" " * size
        missing -= _ATTRIBUTE_BYTES + size
    return request[:2] + struct.pack("!H", len(body)) + request[4:HEADER_BYTES] + body


def _first_hop_mtu(server: Address) -> int:
    """What this machine's own interface carries: nothing larger leaves it."""
    family = socket.AF_INET6 if ":" in server[0] else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        forbid_fragments(sock)
        sock.connect(server)
        if family == socket.AF_INET6:
            return sock.getsockopt(socket.IPPROTO_IPV6, _IPV6_MTU)
        return sock.getsockopt(socket.IPPROTO_IP, _IP_MTU)


async def _passes(wire: UdpWire, server: Address, packet_bytes: int) -> bool:
    header_bytes = (40 if ":" in server[0] else 20) + 8
    try:
        await wire.ask(padded_request(packet_bytes, header_bytes), server, TRY_TIMEOUT_S)
    except OSError:
        return False
    return True
