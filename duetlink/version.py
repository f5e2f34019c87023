"""The version of this package, which both sides tell each other when they pair."""

from __future__ import annotations

__version__ = "0.1.0"
