"""Writes docs/networks.md: the result for every pair of networks."""

from __future__ import annotations

from collections.abc import Mapping

from tests.lab.gateway import KINDS
from tests.lab.matrix import DELAY_MS, RATE_MBIT, SIZE_BYTES, Outcome

_HEAD = """# Which networks can be linked, and how

Measured by `python -m tests.lab`, which links every kind of network with every other and writes this page.
The networks consist of Linux network namespaces and a real coturn (`tests/lab`). Lines carry
{rate:g} Mbit/s, with a round trip of {round_trip:g} ms. Each cell shows the path by which {size} MiB came
from the owner to the scientist, how long `join()` took, and the speed. All bytes arrived intact, unless a
cell says otherwise.

| network | what it is |
|---|---|
| `open` | a public address |
| `full-cone` | NAT: each local port has one public port, which any machine can reach |
| `address-restricted` | the same, but only for addresses to which a packet was sent before |
| `port-restricted` | the same, but only for address and port to which a packet was sent before; most homes |
| `symmetric` | NAT: a different public port for each destination; many companies and mobile networks |
| `double-nat` | the NAT of a home behind the NAT of its provider (CGNAT) |
| `udp-blocked` | a NAT that lets only TCP pass |
| `only-443` | a NAT that lets only TCP to port 443 pass, as in some companies and hotels |
| `ipv6` | IPv6 without IPv4, behind a firewall that lets only replies in |

The paths: `tcp` dials the owner's own address; `punched` is TCP through both NATs; `udp` is duetlink's
tunnel over the UDP route that ICE found; `relay` goes through the TURN server; `channel` is the WebRTC data
channel. Where a cell says `relay`, the two networks cannot be linked without a TURN server.
[Connecting](connecting.md#a-path) says how to configure one.

"""
_BEHIND = {
    (False, False): "in one home network",
    (True, True): "on a guest network that keeps them apart, whose gateway hairpins",
    (False, True): "on a guest network that keeps them apart, whose gateway does not hairpin",
}


def page(outcomes: Mapping[tuple[str, str], Outcome], behind: Mapping[tuple[bool, bool], Outcome]) -> str:
    """Return the whole page as Markdown."""
    head = _HEAD.format(rate=RATE_MBIT, round_trip=2 * DELAY_MS, size=SIZE_BYTES >> 20)
    lines = [f"| owner ↓ scientist → | {' | '.join(KINDS)} |", "|---" * (len(KINDS) + 1) + "|"]
    for owner in KINDS:
        cells = [_cell(outcomes.get((owner, scientist))) for scientist in KINDS]
        lines.append(f"| `{owner}` | {' | '.join(cells)} |")
    lines += ["", "Both behind one port-restricted NAT:", "", "| both are | |", "|---|---|"]
    lines += [f"| {words} | {_cell(behind.get(which))} |" for which, words in _BEHIND.items()]
    return head + "\n".join(lines) + "\n"


def _cell(outcome: Outcome | None) -> str:
    return "**no link**" if outcome is None else str(outcome)
