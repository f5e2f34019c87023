"""Asking a gateway for a port: PCP (RFC 6887) and its forerunner NAT-PMP (RFC 6886), as bytes.

Both are one datagram each way on the same port of the gateway. One that knows NAT-PMP only answers PCP in
NAT-PMP's words, by its version number.
"""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass

from duetlink.errors import PathUnavailable

PORT = 5351
NONCE_BYTES = 12

_PCP, _NAT_PMP = 2, 0
_MAP = 1  # opcode of PCP
_ADDRESS, _MAP_TCP = 0, 2  # opcodes of NAT-PMP
_ANSWER = 0x80
_TCP = 6

_PCP_HEADER = struct.Struct("!BBxBI")  # version, opcode, (result,) lifetime; then 16 bytes
_PCP_MAP = struct.Struct("!12sB3xHH16s")  # nonce, protocol, internal port, external port, external address
_NAT_PMP_MAP = struct.Struct("!BBHHHI")  # version, opcode, 0, internal port, external port, lifetime
_NAT_PMP_HEADER = struct.Struct("!BBHI")  # version, opcode, result, epoch

# RFC 6887 §7.4
_PCP_RESULTS = {
    1: "it speaks another version",
    2: "it does not permit it",
    8: "it has no more ports",
    12: "it is behind another NAT",
}
# RFC 6886 §3.5
_NAT_PMP_RESULTS = {
    1: "it speaks another version",
    2: "it does not permit it",
    3: "it has no network outside",
    4: "it has no more ports",
}


class OnlyNatPmp(PathUnavailable):
    """The gateway has answered that it does not know PCP."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What a gateway has given: a port of its own, for some time."""

    port: int
    lifetime_s: int
    host: str | None = None  # of the gateway, outside; NAT-PMP tells it separately


def pcp_request(nonce: bytes, host: str, port: int, external_port: int, lifetime_s: int) -> bytes:
    """For `port` of `host`, which sends this. With the same nonce it is the same mapping, asked for again."""
    header = _PCP_HEADER.pack(_PCP, _MAP, 0, lifetime_s) + _mapped(host)
    return header + _PCP_MAP.pack(nonce, _TCP, port, external_port, _mapped("0.0.0.0"))


def read_pcp(data: bytes, nonce: bytes, port: int) -> Grant | None:
    """The answer to that; None for what is none.

    Raises:
        OnlyNatPmp: the gateway does not know PCP.
        PathUnavailable: it has refused.
    """
    if len(data) >= 8 and data[0] == _NAT_PMP and data[1] & _ANSWER:
        raise OnlyNatPmp("the router knows NAT-PMP only")
    if len(data) < 24 + _PCP_MAP.size or len(data) > 1100:
        return None
    version, opcode, result, lifetime_s = _PCP_HEADER.unpack_from(data)
    got_nonce, protocol, internal_port, external_port, external = _PCP_MAP.unpack_from(data, 24)
    if (version, opcode) != (_PCP, _ANSWER | _MAP) or (got_nonce, protocol, internal_port) != (
        nonce,
        _TCP,
        port,
    ):
        return None
    _check(result, _PCP_RESULTS)
    address = ipaddress.IPv6Address(external)
    return Grant(external_port, lifetime_s, str(address.ipv4_mapped or address))


def nat_pmp_request(port: int, external_port: int, lifetime_s: int) -> bytes:
    return _NAT_PMP_MAP.pack(_NAT_PMP, _MAP_TCP, 0, port, external_port, lifetime_s)


def read_nat_pmp(data: bytes, port: int) -> Grant | None:
    """The answer to that; None for what is none. Raises PathUnavailable where the gateway has refused."""
    if not _answers(data, _MAP_TCP, 16):
        return None
    internal_port, external_port, lifetime_s = struct.unpack_from("!HHI", data, 8)
    return Grant(external_port, lifetime_s) if internal_port == port else None


def nat_pmp_address_request() -> bytes:
    return bytes([_NAT_PMP, _ADDRESS])


def read_nat_pmp_address(data: bytes) -> str | None:
    """The gateway's address outside; None for what is none. Raises PathUnavailable where it has refused."""
    return str(ipaddress.IPv4Address(data[8:12])) if _answers(data, _ADDRESS, 12) else None


def _answers(data: bytes, opcode: int, size_bytes: int) -> bool:
    # a refusal may end after its header
    if len(data) < _NAT_PMP_HEADER.size or data[:2] != bytes([_NAT_PMP, _ANSWER | opcode]):
        return False
    _check(_NAT_PMP_HEADER.unpack_from(data)[2], _NAT_PMP_RESULTS)
    return len(data) == size_bytes


def _check(result: int, words: dict[int, str]) -> None:
    if result:
        raise PathUnavailable(f"the router gives no port: {words.get(result, f'error {result}')}")


def _mapped(host: str) -> bytes:
    return ipaddress.IPv6Address(f"::ffff:{host}").packed
