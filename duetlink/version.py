"""The versions of the package and of the protocol, which both sides exchange when they pair."""

from __future__ import annotations

__version__ = "0.1.0"

# versions of the messages on the control channel; a change that an older peer cannot read raises both
PROTOCOL_MIN = 3
PROTOCOL_MAX = 3
