"""What the ICE driver of the peer says, read as what a hostile one could say."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Any

import msgspec
from aioice import Candidate
from msgspec import Meta

from duetlink.base.wire import json_
from duetlink.errors import RemoteProtocolError

MAX_CANDIDATES = 60

_Short = Annotated[str, Meta(max_length=1000)]


class IceMessage(msgspec.Struct, frozen=True):
    """What one signal says: whatever its sender knows at that moment."""

    ufrag: _Short | None = None
    password: _Short = ""  # beside `ufrag`
    candidates: Annotated[list[Any], Meta(max_length=MAX_CANDIDATES)] = []
    end: bool = False  # there are no more candidates
    no_turn: _Short = ""  # beside `end`: why the sender has no relay

    def __post_init__(self) -> None:
        if self.ufrag is not None and not self.password:
            raise ValueError("there is no password beside the ufrag")


def read_message(payload: bytes) -> IceMessage:
    try:
        return json_.read(payload, IceMessage)
    except ValueError as error:
        raise RemoteProtocolError(f"the peer's helper sent something that is no message: {error}") from None


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
