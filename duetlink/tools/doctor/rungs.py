"""Estimates from the findings which paths to peers in other networks are likely to work.

UDP between two NATs works if both mappings are endpoint-independent, so that each peer can be told the
other's outer address. It also works if only one mapping is, and that side's filter lets in the address that
it sees of the other side (RFC 5128 §3.3). TCP between two NATs needs the same of their TCP mappings, which in
practice are like their UDP mappings, and NATs that send no reset for an early SYN. About two in three of the
pairs that can be connected by UDP can be connected by TCP (Ford et al., "Peer-to-Peer Communication Across
NATs", 2005).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from duetlink.settings import PATHS
from duetlink.tools.doctor.finding import Finding, Outcome

# works with most peers, with some, with none; or was not measured
Likelihood = Literal["likely", "some", "unlikely", "unknown"]


@dataclass(frozen=True, slots=True)
class Rung:
    """The estimate for one path to peers in other networks, with its reason."""

    name: str
    outlook: Likelihood
    why: str


def expect_rungs(findings: Sequence[Finding], allowed: Sequence[str] = PATHS) -> tuple[Rung, ...]:
    """Estimate tcp, punched, udp and relay, the preferred first. `allowed` are the settings' paths."""
    return tuple(
        rung if rung.name in allowed else Rung(rung.name, "unlikely", "your settings leave it out")
        for rung in _from_network(findings)
    )


def _from_network(findings: Sequence[Finding]) -> tuple[Rung, ...]:
    details: dict[str, Any] = {finding.name: finding.details for finding in findings}
    outcome = {finding.name: finding.outcome for finding in findings}
    turn = [finding for finding in findings if finding.name == "turn"]
    if outcome.get("addresses") == "failed":
        return tuple(Rung(name, "unlikely", "this machine is in no network") for name in _NAMES)
    nat = details.get("nat", {})
    udp = outcome.get("udp", "unknown")
    return _tcp(details), _punched(nat), _udp(nat, udp), _relay(turn)


_NAMES = ("tcp", "punched", "udp", "relay")


def _tcp(details: dict[str, Any]) -> Rung:
    udp = details.get("udp", {})
    if udp.get("asked") and not udp.get("answered") and not udp.get("answered_by_tcp"):
        return Rung("tcp", "some", "peers of the same network; nothing outside answers this machine")
    # an IPv6 address is usually public, but usually behind a firewall that admits no unknown peer
    if not any(":" not in host for host in details.get("addresses", {}).get("public", ())):
        why = "peers of the same network or VPN, and peers whose own address can be reached"
        return Rung("tcp", "some", why)
    return Rung("tcp", "likely", "this machine has a public address; a firewall may still refuse peers")


def _punched(nat: dict[str, Any]) -> Rung:
    mapping = nat.get("mapping", "unknown")
    if mapping == "endpoint-independent":
        return Rung("punched", "some", "the NAT allows it; it works with about two peers in three")
    if mapping != "unknown":
        return Rung("punched", "unlikely", "behind a symmetric NAT a peer cannot be told which port to dial")
    return Rung("punched", "unknown", "the NAT was not measured")


def _udp(nat: dict[str, Any], udp: Outcome) -> Rung:
    mapping = nat.get("mapping", "unknown")
    if udp == "failed":
        return Rung("udp", "unlikely", "no answer comes back by UDP")
    if mapping == "unknown":
        if udp == "ok":
            return Rung("udp", "some", "UDP goes out; which peers get in was not measured")
        return Rung("udp", "unknown", "no server was tried by UDP")
    if mapping != "endpoint-independent":
        return Rung("udp", "some", "only with peers that are open, or behind a full or restricted cone NAT")
    return Rung("udp", "likely", "with every peer that is not behind a symmetric NAT, and with some that are")


def _relay(turn: Sequence[Finding]) -> Rung:
    if not turn:
        return Rung("relay", "unlikely", "no TURN server is configured")
    for finding in turn:
        if finding.outcome == "ok":
            why = f"{finding.details['url']} relays by {finding.details['transport'].upper()}"
            return Rung("relay", "likely", why)
    if any(finding.outcome == "unknown" for finding in turn):
        return Rung("relay", "unknown", "the TURN servers did not answer in time")
    return Rung("relay", "unlikely", "no configured TURN server can be used; see turn")
