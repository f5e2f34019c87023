"""The versions that both sides tell each other when they pair: of this package, and of its messages."""

from __future__ import annotations

__version__ = "0.1.0"

# Of the messages on the control channel. A change that an older peer cannot read raises both.
PROTOCOL_MIN = 3
PROTOCOL_MAX = 3
