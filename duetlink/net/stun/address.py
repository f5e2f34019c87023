"""Addresses that this side may dial: an IP literal and a port. Host names are never resolved for a peer."""

from __future__ import annotations

import ipaddress
import socket

Address = tuple[str, int]


def family_of(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def read_address(entry: object) -> Address | None:
    """Return an address that a peer or a server sent, in one spelling; None if this side must not dial it.

    This rejects loopback addresses of this machine, which would let a peer reach local services, and
    link-local ones, which mean nothing without an interface. It also rejects multicast, unspecified and
    reserved addresses.
    """
    match entry:
        case [str(host), int(port)] if len(host) <= 45 and 0 < port < 65536 and not isinstance(port, bool):
            pass
        case _:
            return None
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and (address.ipv4_mapped or address.scope_id):
        return None
    elsewhere = not (address.is_loopback or address.is_link_local)
    one_machine = not (address.is_multicast or address.is_unspecified or address.is_reserved)
    return (str(address), port) if elsewhere and one_machine else None
