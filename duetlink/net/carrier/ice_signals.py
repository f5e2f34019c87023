"""What the ICE driver of the peer says, read as what a hostile one could say."""

from __future__ import annotations

import ipaddress
import json
from typing import Any

from aioice import Candidate

from duetlink.errors import RemoteProtocolError

MAX_CANDIDATES = 60

_MAX_CHARACTERS = 1000


def read_message(payload: bytes) -> dict[str, Any]:
    try:
        message = json.loads(payload)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise RemoteProtocolError("the peer's helper sent something that is no message")
    return message


def read_text(message: dict[str, Any], name: str) -> str:
    text = message.get(name)
    if not isinstance(text, str) or len(text) > _MAX_CHARACTERS:
        raise RemoteProtocolError(f"the peer's helper sent a message whose {name!r} cannot be used")
    return text


def read_candidate(sdp: object) -> Candidate | None:
    """One remote candidate; None for what is not one or names no single machine: names are not resolved."""
    if not isinstance(sdp, str):
        return None
    try:
        candidate = Candidate.from_sdp(sdp)
        address = ipaddress.ip_address(candidate.host)
    except (ValueError, IndexError):
        return None
    usable = (
        candidate.component == 1
        and candidate.transport.lower() == "udp"
        and candidate.type in ("host", "srflx", "relay")
        and 0 < candidate.port < 65536
        and not (address.is_multicast or address.is_unspecified or address.is_reserved)
    )
    return candidate if usable else None


def read_candidates(message: dict[str, Any]) -> list[Candidate]:
    """The usable candidates of a message."""
    candidates = message.get("candidates", [])
    if not isinstance(candidates, list) or len(candidates) > MAX_CANDIDATES:
        raise RemoteProtocolError("the peer's helper sent too many candidates or none")
    return [candidate for candidate in map(read_candidate, candidates) if candidate is not None]
