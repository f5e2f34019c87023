"""Rung `relay`: the tunnel through a TURN server (RFC 8656), for networks that let nothing else through."""

from __future__ import annotations

from typing import ClassVar

from duetlink.net.paths.carried import CarriedPath


class RelayPath(CarriedPath):
    """Flight through a relay, which sees nothing but ciphertext. One side's TURN server is enough."""

    name: ClassVar[str] = "relay"

    def refusal(self, peer_has_relay: bool) -> str:
        if peer_has_relay or self.has_relay():
            return ""
        return (
            "neither side has a TURN server; set one in DUETLINK_ICE_SERVERS, as in "
            '[{"urls": "turn:turn.example.org", "username": "u", "credential": "p"}]'
        )
