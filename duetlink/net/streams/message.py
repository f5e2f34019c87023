"""What a stream carries."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Message:
    """What travels in one piece: a short head that says what it is, and a body of bytes."""

    head: bytes
    body: memoryview  # of bytes, read-only; stays valid as long as somebody holds it
