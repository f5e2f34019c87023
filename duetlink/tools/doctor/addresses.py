"""The network addresses of this machine, and what follows from them about its networks."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

import ifaddr

from duetlink.tools.doctor.finding import Finding

_VPN_PREFIXES = ("tun", "tap", "utun", "wg", "ppp", "tailscale", "zt", "nordlynx", "proton", "ipsec", "gpd")
_SHARED = ipaddress.ip_network(
    "100.64.0.0/10"
)  # RFC 6598: a carrier's NAT, or an overlay such as Tailscale's


@dataclass(frozen=True, slots=True)
class OwnAddress:
    """An IP literal, and the interface that has it."""

    host: str
    interface: str

    @property
    def ip(self) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
        return ipaddress.ip_address(self.host)


def own_addresses() -> list[OwnAddress]:
    """Return every address of every interface, loopback included."""
    return [
        OwnAddress(str(ip.ip if ip.is_IPv4 else ip.ip[0]), adapter.nice_name)
        for adapter in ifaddr.get_adapters()
        for ip in adapter.ips
    ]


def addresses_finding(addresses: Iterable[OwnAddress]) -> Finding:
    """Report the addresses by kind: IPv4, IPv6, public, behind a carrier's NAT, of a VPN."""
    usable = [each for each in addresses if not each.ip.is_loopback and not each.ip.is_link_local]
    ipv4 = [each.host for each in usable if each.ip.version == 4]
    ipv6 = [each.host for each in usable if each.ip.version == 6]
    public = [each.host for each in usable if each.ip.is_global]
    shared = [each.host for each in usable if each.ip.version == 4 and each.ip in _SHARED]
    vpn = sorted({each.interface for each in usable if each.interface.lower().startswith(_VPN_PREFIXES)})
    details = {"ipv4": ipv4, "ipv6": ipv6, "public": public, "carrier_grade": shared, "vpn": vpn}
    if not usable:
        return Finding(
            "addresses",
            "failed",
            "This machine is in no network: it has loopback addresses only.",
            "connect it to a network; notebooks on this machine reach each other all the same",
            details,
        )
    words = f"{_list('IPv4', ipv4)}; {_list('IPv6', ipv6)}."
    if public:
        words += f" Public: {', '.join(public)}."
    if shared:
        words += " 100.64.0.0/10 is behind a carrier's NAT, or belongs to an overlay network."
    advice = ""
    if vpn:
        words += f" A VPN seems to be on ({', '.join(vpn)})."
        advice = (
            "a VPN that both sides are in connects them directly; one that only you are in may get in the way"
        )
    return Finding("addresses", "ok", words, advice, details)


def _list(kind: str, hosts: list[str]) -> str:
    shown = ", ".join(hosts[:3]) + (f" and {len(hosts) - 3} more" if len(hosts) > 3 else "")
    return f"{kind} {shown}" if hosts else f"no {kind}"
