"""Whether the peer is on this machine, told to nobody else."""

from __future__ import annotations

import hmac
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")  # random(4): drawn when the system starts; Linux only


def mark(of: bytes) -> bytes:
    """An HMAC of `of`, 32 bytes, which all processes of this machine can make until it is started anew, also
    those of other users, namespaces and containers. Empty where the system has no secret for it.

    Those elsewhere learn nothing from it, not even that two marks come from one machine.
    """
    try:
        return hmac.digest(_BOOT_ID.read_bytes(), b"duetlink/1 machine" + of, "sha256")
    except OSError:
        return b""


def is_marked(of: bytes, mark_: bytes) -> bool:
    """Whether a process of this machine has made `mark_`, or has been told it."""
    mine = mark(of)
    return bool(mine) and hmac.compare_digest(mine, mark_)
