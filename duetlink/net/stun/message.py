"""STUN messages (RFC 8489 §5) by aioice, bounded: what is made here, and what is read of a stranger."""

from __future__ import annotations

import struct

from aioice import stun

from duetlink.net.stun.address import Address

MAX_MESSAGE_BYTES = 2048
HEADER_BYTES = 20
_COOKIE = struct.pack("!I", stun.COOKIE)


def read_message(data: bytes) -> stun.Message | None:
    """What `data` holds, None if that is no STUN message of sensible size."""
    if not HEADER_BYTES <= len(data) <= MAX_MESSAGE_BYTES or data[4:8] != _COOKIE:
        return None
    try:
        return stun.parse_message(data)
    except (ValueError, struct.error):  # struct's for an attribute shorter than its type
        return None


def binding_request() -> bytes:
    """A fresh Binding request (RFC 8489 §14)."""
    return bytes(stun.Message(stun.Method.BINDING, stun.Class.REQUEST))


def mapped_address(message: stun.Message) -> Address | None:
    """Where the server saw the question come from; None if it does not say."""
    for name in ("XOR-MAPPED-ADDRESS", "MAPPED-ADDRESS"):
        if name in message.attributes:
            host, port = message.attributes[name]
            return str(host), int(port)
    return None
