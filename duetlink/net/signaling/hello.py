"""The hello that each side sends when pairing, and the negotiation of protocol version and features."""

from __future__ import annotations

from dataclasses import dataclass, field

from duetlink.errors import IncompatiblePeer, LocalProtocolError, RemoteProtocolError
from duetlink.net.signaling import schema_pb2 as pb
from duetlink.net.stun.lending import MAX_LENT, borrowed
from duetlink.settings import IceServer

MAX_TEXT = 64
MAX_FEATURES = 64

GROUP = "group"  # the feature of a side that wants a group; without it, a duet
BORROWS = "borrows"  # the feature of a side that has no TURN server of its own and would use the peer's


def _shown(text: str) -> str:
    """Remove control and direction characters. The text must still be escaped for HTML."""
    return "".join(character for character in text if character.isprintable())[:MAX_TEXT]


@dataclass(frozen=True, slots=True)
class SignalingHello:
    """Protocol range, version and name (both cut to 64 printable characters), features, and relays."""

    protocol_min: int
    protocol_max: int
    version: str
    name: str = ""
    features: frozenset[str] = frozenset()
    relays: tuple[IceServer, ...] = field(default=(), repr=False)
    """TURN servers with short-lived credentials that the peer may use (`net/stun/lending.py`)"""

    def __post_init__(self) -> None:
        if not 1 <= self.protocol_min <= self.protocol_max < 2**32:
            raise LocalProtocolError(
                f"protocol range {self.protocol_min} to {self.protocol_max} is empty or below 1"
            )
        if len(self.features) > MAX_FEATURES or any(not 0 < len(name) <= MAX_TEXT for name in self.features):
            raise LocalProtocolError(
                f"at most {MAX_FEATURES} features, with names of 1 to {MAX_TEXT} characters"
            )
        object.__setattr__(self, "version", _shown(self.version))
        object.__setattr__(self, "name", _shown(self.name))

    def to_wire(self) -> pb.Hello:
        return pb.Hello(
            protocol_min=self.protocol_min,
            protocol_max=self.protocol_max,
            version=self.version,
            name=self.name,
            features=sorted(self.features),
            relays=(
                pb.Relay(url=url, username=relay.username or "", credential=relay.credential or "")
                for relay in self.relays
                for url in relay.urls
            ),
        )

    @classmethod
    def from_wire(cls, wire: pb.Hello) -> SignalingHello:
        """Parse the peer's hello. Raises RemoteProtocolError if it is not allowed."""
        if len(wire.features) > MAX_FEATURES:
            raise RemoteProtocolError(
                f"the peer names {len(wire.features)} features, at most {MAX_FEATURES} are allowed"
            )
        if len(wire.relays) > MAX_LENT:
            raise RemoteProtocolError(
                f"the peer lends {len(wire.relays)} TURN servers, at most {MAX_LENT} are allowed"
            )
        relays = tuple(borrowed(relay.url, relay.username, relay.credential) for relay in wire.relays)
        try:
            return cls(
                wire.protocol_min,
                wire.protocol_max,
                wire.version,
                wire.name,
                frozenset(wire.features),
                relays,
            )
        except LocalProtocolError as error:
            raise RemoteProtocolError(f"the peer's hello: {error}") from None


def negotiate(mine: SignalingHello, theirs: SignalingHello) -> tuple[int, frozenset[str]]:
    """Return the highest protocol version that both sides speak, and the features that both have.

    Both sides compute the same. Raises IncompatiblePeer with both library versions and which side should
    upgrade.
    """
    protocol = min(mine.protocol_max, theirs.protocol_max)
    if protocol >= max(mine.protocol_min, theirs.protocol_min):
        return protocol, mine.features & theirs.features
    who = (
        "upgrade duetlink here"
        if mine.protocol_max < theirs.protocol_min
        else "ask your peer to upgrade duetlink"
    )
    raise IncompatiblePeer(
        f"this side runs duetlink {mine.version} (protocol {mine.protocol_min} to {mine.protocol_max}), "
        f"the peer duetlink {theirs.version} (protocol {theirs.protocol_min} to {theirs.protocol_max}): {who}"
    )
