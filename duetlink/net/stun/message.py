"""STUN messages (RFC 8489 §5), parsed with aioice after a check of their size."""

from __future__ import annotations

import struct

from aioice import stun

from duetlink.net.stun.address import Address

MAX_MESSAGE_BYTES = 2048
HEADER_BYTES = 20
_COOKIE = struct.pack("!I", stun.COOKIE)


def read_message(data: bytes) -> stun.Message | None:
    """Parse `data`; None if it is not a STUN message of 20 to 2,048 bytes."""
    if not HEADER_BYTES <= len(data) <= MAX_MESSAGE_BYTES or data[4:8] != _COOKIE:
        return None
    try:
        return stun.parse_message(data)
    except (ValueError, struct.error):  # aioice raises struct.error for an attribute that is too short
        return None


def binding_request() -> bytes:
    """Return a Binding request (RFC 8489 §14) with a fresh transaction id."""
    return bytes(stun.Message(stun.Method.BINDING, stun.Class.REQUEST))


def mapped_address(message: stun.Message) -> Address | None:
    """Return the client's address as the server saw it; None if the message has none."""
    for name in ("XOR-MAPPED-ADDRESS", "MAPPED-ADDRESS"):
        if name in message.attributes:
            host, port = message.attributes[name]
            return str(host), int(port)
    return None
