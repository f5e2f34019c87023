"""Prove to the peer that both run on one machine, or in one network namespace, without revealing more."""

from __future__ import annotations

import hmac
import os
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")  # random(4): drawn when the system starts; Linux only
_NETWORK = "/proc/self/ns/net"  # namespaces(7): what it links to is one name for each


def mark(of: bytes) -> bytes:
    """Return an HMAC of `of`, 32 bytes, that every process of this machine can compute until the next boot.

    This includes other users, namespaces and containers. Empty if the system has no secret for it. Other
    machines learn nothing from it, not even that two marks come from one machine.
    """
    try:
        return hmac.digest(_BOOT_ID.read_bytes(), b"duetlink/1 machine" + of, "sha256")
    except OSError:
        return b""


def loopback_mark(of: bytes) -> bytes:
    """Return a mark for the processes of one network namespace, which reach each other by 127.0.0.1."""
    try:
        return mark(os.readlink(_NETWORK).encode() + of)
    except OSError:
        return b""


def is_marked(of: bytes, mark_: bytes) -> bool:
    """Return True if `mark_` was made on this machine. Its sender may also have received it from here."""
    return _same(mark(of), mark_)


def has_loopback(of: bytes, mark_: bytes) -> bool:
    """Return True if `mark_` was made in this network namespace. Its sender may have received it from
    here."""
    return _same(loopback_mark(of), mark_)


def _same(mine: bytes, theirs: bytes) -> bool:
    return bool(mine) and hmac.compare_digest(mine, theirs)
