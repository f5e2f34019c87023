"""Classifies a NAT by how it maps UDP ports: in the terms of RFC 4787, in the old terms, and in plain words.

Theory. A NAT replaces a local port by an outer one: its *mapping*. The mapping may be the same for every
peer, or depend on the peer's address or port (RFC 4787 §4.1). Only if it is the same can a peer be told where
to send. This module classifies observations without a socket; `nat_probe` makes the observations.

The *filtering* (§5), that is, whose datagrams the NAT lets in, is not measured: no advice depends on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from duetlink.net.stun.address import Address
from duetlink.tools.doctor.finding import Finding

Behaviour = Literal[
    "endpoint-independent", "address-dependent", "address-and-port-dependent", "endpoint-dependent", "unknown"
]


@dataclass(frozen=True, slots=True)
class Observation:
    """A STUN server's view: its address, the outer address that it saw, and its other address, if any."""

    server: Address
    mapped: Address
    other: Address | None = None


@dataclass(frozen=True, slots=True)
class Nat:
    """A measured NAT: its mapping, and the outer address; `translated` is False if there is no NAT."""

    translated: bool
    mapping: Behaviour
    mapped: Address

    @property
    def old_name(self) -> str:
        """The name in RFC 3489, which is still widely used: cone, symmetric, no NAT, or unknown."""
        if not self.translated:
            return "no NAT"
        return {"endpoint-independent": "cone", "unknown": "unknown"}.get(self.mapping, "symmetric")

    def finding(self) -> Finding:
        details = {
            "translated": self.translated,
            "mapping": self.mapping,
            "old_name": self.old_name,
            "mapped_address": self.mapped[0],
        }
        if self.mapping == "unknown":
            words = "Behind a NAT; one server alone does not show of which kind."
            advice = "configure a second STUN server, or one with two addresses (RFC 5780)"
            return Finding("nat", "unknown", words, advice, details)
        if not self.translated:
            words = "No NAT on the way to the servers: they see this machine at its own address."
            return Finding("nat", "ok", words, "", details)
        kind = f"({self.old_name}, mapping {self.mapping})"
        if self.mapping == "endpoint-independent":
            words = "Behind a NAT that shows every peer the same port, so peers can be told where to send"
            return Finding("nat", "ok", f"{words} {kind}.", "", details)
        words = "Behind a NAT that shows each peer another port, so few peers can be told where to send"
        advice = "configure a TURN server: it connects to the peers that this NAT cannot"
        return Finding("nat", "limited", f"{words} {kind}.", advice, details)


def mapping_of(observations: Sequence[Observation]) -> Behaviour:
    """Classify the mappings of one local port.

    `endpoint-dependent` means that the mapping changes, but not whether with the address or with the port.
    """
    seen = sorted({(each.server, each.mapped) for each in observations})
    pairs = [(a, b) for index, a in enumerate(seen) for b in seen[index + 1 :]]
    same_address = [a[1] == b[1] for a, b in pairs if a[0][0] == b[0][0]]
    other_address = [a[1] == b[1] for a, b in pairs if a[0][0] != b[0][0]]
    if not all(same_address):
        return "address-and-port-dependent"
    if not all(other_address):
        return "address-dependent" if same_address else "endpoint-dependent"
    return "endpoint-independent" if other_address else "unknown"
