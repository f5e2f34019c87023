"""Whether the peer is on this machine, and in its network, told to nobody else."""

from __future__ import annotations

import hmac
import os
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")  # random(4): drawn when the system starts; Linux only
_NETWORK = "/proc/self/ns/net"  # namespaces(7): what it links to is one name for each


def mark(of: bytes) -> bytes:
    """An HMAC of `of`, 32 bytes, which all processes of this machine can make until it is started anew, also
    those of other users, namespaces and containers. Empty where the system has no secret for it.

    Those elsewhere learn nothing from it, not even that two marks come from one machine.
    """
    try:
        return hmac.digest(_BOOT_ID.read_bytes(), b"duetlink/1 machine" + of, "sha256")
    except OSError:
        return b""


def loopback_mark(of: bytes) -> bytes:
    """The same for the processes that reach each other by 127.0.0.1: those of one network namespace."""
    try:
        return mark(os.readlink(_NETWORK).encode() + of)
    except OSError:
        return b""


def is_marked(of: bytes, mark_: bytes) -> bool:
    """Whether a process of this machine has made `mark_`, or has been told it."""
    return _same(mark(of), mark_)


def has_loopback(of: bytes, mark_: bytes) -> bool:
    """Whether a process that has this one's loopback has made `mark_`, or has been told it."""
    return _same(loopback_mark(of), mark_)


def _same(mine: bytes, theirs: bytes) -> bool:
    return bool(mine) and hmac.compare_digest(mine, theirs)
