"""Messages of the peer's ICE driver, parsed as untrusted input."""

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
    """One signal: whatever its sender knows at that moment."""

    ufrag: _Short | None = None
    password: _Short = ""  # together with `ufrag`
    candidates: Annotated[list[Any], Meta(max_length=MAX_CANDIDATES)] = []
    end: bool = False  # there are no more candidates
    no_turn: _Short = ""  # together with `end`: why the sender has no relay

    def __post_init__(self) -> None:
        if self.ufrag is not None and not self.password:
            raise ValueError("it has a ufrag but no password")


def read_message(payload: bytes) -> IceMessage:
    try:
        return json_.read(payload, IceMessage)
    except ValueError as error:
        raise RemoteProtocolError(f"the peer's helper sent a malformed message: {error}") from None


def read_candidate(sdp: object) -> Candidate | None:
    """Parse one remote candidate; None if it is malformed or names no single machine.

    Names are not resolved.
    """
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
