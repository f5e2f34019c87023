"""What a NAT or firewall does to UDP, in the standard's terms, the old ones, and plain words.

Theory. A NAT gives a local port an outer one: its *mapping*. Whether that stays the same towards every peer,
or changes with the peer's address or port, decides if a peer can be told where to send (RFC 4787 §4.1). What
follows from the observations is decided here, without a socket; `nat_probe` makes them.

Whose datagrams come in by the mapping, its *filtering* (§5), is not measured: no advice depends on it.
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
    """A server's address, the one that it saw this machine's port at, and the server's other one, if any."""

    server: Address
    mapped: Address
    other: Address | None = None


@dataclass(frozen=True, slots=True)
class Nat:
    """What was measured."""

    translated: bool
    mapping: Behaviour
    mapped: Address

    @property
    def old_name(self) -> str:
        """What RFC 3489 called it: the names still heard."""
        if not self.translated:
            return "no NAT"
        return {"endpoint-independent": "cone", "unknown": "unknown"}.get(self.mapping, "symmetric")

    def finding(self) -> Finding:
        """For a person."""
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
    """What one local port's mappings say; `endpoint-dependent` where what they depend on is not known."""
    seen = sorted({(one.server, one.mapped) for one in observations})
    pairs = [(a, b) for index, a in enumerate(seen) for b in seen[index + 1 :]]
    same_address = [a[1] == b[1] for a, b in pairs if a[0][0] == b[0][0]]
    other_address = [a[1] == b[1] for a, b in pairs if a[0][0] != b[0][0]]
    if not all(same_address):
        return "address-and-port-dependent"
    if not all(other_address):
        return "address-dependent" if same_address else "endpoint-dependent"
    return "endpoint-independent" if other_address else "unknown"
