"""Gateways between hosts and their line: address translators and firewalls of every kind.

In the words of RFC 4787, for UDP: *mapping* says whether one local port has the same public port for every
destination, *filtering* who may answer to it. For TCP all translators here let in only who was dialled first.

| kind | mapping | filtering |
|---|---|---|
| `full-cone` | endpoint-independent | endpoint-independent |
| `address-restricted` | endpoint-independent | address-dependent |
| `port-restricted` | endpoint-independent | address and port-dependent |
| `symmetric` | address and port-dependent | address and port-dependent |
| `double-nat` | two `port-restricted` in a row, the outer one the provider's | |
| `udp-blocked` | as `port-restricted`, but only TCP passes | |
| `only-443` | as `port-restricted`, but only TCP to port 443 passes | |
| `ipv6` | no translation, no IPv4; a firewall that lets answers in | address and port-dependent |

Linux translates port-restricted or symmetric by itself; the others learn, from what leaves, whom to let in.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.lab.line import Line
from tests.lab.namespace import Namespace, connect

KINDS = (
    "open", "full-cone", "address-restricted", "port-restricted", "symmetric", "double-nat", "udp-blocked",
    "only-443", "ipv6",
)  # fmt: skip

# Unsolicited packets are dropped, not answered, and before connection tracking confirms them: an entry made
# by the peer's early packet would force our own later packet to another public port, and every cone would
# look symmetric.
_RULES = """
table inet filter {{
  chain input {{
    type filter hook input priority filter; policy drop;
    meta l4proto ipv6-icmp accept
  }}
  chain forward {{
    type filter hook forward priority filter; policy drop;
    {block}
    ct state established,related accept
    ct status dnat accept
    iifname "lan*" oifname "wan" accept
    iifname "lan*" oifname "lan*" {between}
  }}
}}
"""
_TRANSLATE = """
table ip nat {{
  map udp_inside {{ type inet_service : ipv4_addr; flags dynamic; size 65536; }}
  map tcp_inside {{ type inet_service : ipv4_addr; flags dynamic; size 65536; }}
  set contacted {{ type inet_service . ipv4_addr; flags dynamic; size 65536; }}
  chain arrive {{
    type nat hook prerouting priority dstnat;
    {arrive}
  }}
  chain leave {{
    type nat hook postrouting priority srcnat;
    oifname "wan" masquerade {random}
    {leave}
  }}
  chain learn {{
    type filter hook postrouting priority srcnat + 10;
    oifname "wan" meta l4proto udp update @udp_inside {{ udp sport : ct original ip saddr }}
    oifname "wan" meta l4proto tcp update @tcp_inside {{ tcp sport : ct original ip saddr }}
    oifname "wan" meta l4proto udp update @contacted {{ udp sport . ip daddr }}
  }}
}}
"""
_BLOCK = {
    "udp-blocked": "meta l4proto udp drop",
    "only-443": 'iifname "lan*" oifname "wan" tcp dport != 443 drop\n    meta l4proto != tcp drop',
}
_ARRIVE = {
    "full-cone": 'iifname "wan" dnat to udp dport map @udp_inside',
    "address-restricted": 'iifname "wan" udp dport . ip saddr @contacted dnat to udp dport map @udp_inside',
}


@dataclass(frozen=True, slots=True)
class Lease:
    """The place of a customer in a network."""

    address: str
    prefix_length: int
    router: str

    def apply(self, namespace: Namespace, interface: str) -> None:
        namespace.ip(
            f"addr add {self.address}/{self.prefix_length} dev {interface}",
            # nearly every system's default, which not every machine that runs tests has
            f"route add default via {self.router} congctl cubic",
        )


class Gateway:
    """Translates between `wan`, towards its line or an outer gateway, and interfaces `lan1`, `lan2`, …

    Its hosts see each other, unless it is `isolated`. With `hairpin` they reach each other by the public
    address.
    """

    def __init__(
        self, kind: str, upstream: Line | Gateway, *, hairpin: bool = False, isolated: bool = False
    ) -> None:
        self.line: Line = upstream if isinstance(upstream, Line) else upstream.line
        self.kind = kind
        self._six = kind == "ipv6"
        self._hosts = 0
        self._outer = upstream if isinstance(upstream, Gateway) else None
        self.namespace = Namespace(f"{kind} gateway {self.line.number}")
        self.namespace.sysctl(
            ipv4__ip_forward=1, ipv6__conf__all__forwarding=1, ipv4__conf__all__rp_filter=0,
            ipv4__conf__all__send_redirects=0,
        )  # fmt: skip
        lease = plug(upstream, self.namespace, "wan", six=self._six)
        rules = _RULES.format(block=_BLOCK.get(kind, ""), between="drop" if isolated else "accept")
        if not self._six:
            rules += _translation(kind, lease.address, hairpin)
        self.namespace.nft(rules)

    def plug(self, customer: Namespace, interface: str) -> Lease:
        """Connect a host, or an inner gateway."""
        self._hosts += 1
        number = self._hosts
        connect(self.namespace, f"lan{number}", customer, interface)
        if self._six:
            network, length = f"2a00:5500:{self.line.number}:{number}::", 64
        elif self.kind == "carrier":
            network, length = f"100.64.{number}.", 24
        else:
            network, length = (
                f"192.168.{number}.",
                24,
            )  # as in every home: the peer's addresses may be our own
        self.namespace.ip(f"addr add {network}1/{length} dev lan{number}")
        return Lease(f"{network}2", length, f"{network}1")

    def close(self) -> None:
        self.namespace.close()
        if self._outer is not None:
            self._outer.close()


def plug(upstream: Line | Gateway, customer: Namespace, interface: str, *, six: bool) -> Lease:
    """Connect a customer, give it its address and its way out."""
    if isinstance(upstream, Line):
        upstream.plug(customer, interface)
        lease = (
            Lease(upstream.address6("2"), 64, upstream.address6("1"))
            if six
            else Lease(upstream.address(2), 24, upstream.address(1))
        )
    else:
        lease = upstream.plug(customer, interface)
    lease.apply(customer, interface)
    return lease


def make_gateway(kind: str, line: Line, *, hairpin: bool = False, isolated: bool = False) -> Gateway | None:
    """What stands between a host of this kind and its line; None where nothing does."""
    if kind not in KINDS:
        raise ValueError(f"no network kind {kind!r}; there are {', '.join(KINDS)}")
    if kind == "open":
        return None
    if kind == "double-nat":
        return Gateway("port-restricted", Gateway("carrier", line), hairpin=hairpin, isolated=isolated)
    return Gateway(kind, line, hairpin=hairpin, isolated=isolated)


def _translation(kind: str, public: str, hairpin: bool) -> str:
    arrive, leave = [_ARRIVE.get(kind, "")], []
    if hairpin:
        for protocol in ("udp", "tcp"):
            to_public = f'iifname "lan*" ip daddr {public} meta l4proto {protocol}'
            arrive.append(f"{to_public} dnat to {protocol} dport map @{protocol}_inside")
        # RFC 4787 REQ-9: it comes from the public address, or the answer would take another way
        leave.append(f'iifname "lan*" oifname "lan*" ct status dnat snat to {public}')
    return _TRANSLATE.format(
        arrive="\n    ".join(arrive),
        leave="\n    ".join(leave),
        random="fully-random" if kind == "symmetric" else "",
    )
