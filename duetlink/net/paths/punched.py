"""Rung `punched`: a TCP connection through both NATs, opened from both sides at once."""

from __future__ import annotations

from typing import ClassVar

from duetlink.net.paths.carried import CarriedPath


class PunchedPath(CarriedPath):
    """Flight over a TCP connection from one side straight to the other."""

    name: ClassVar[str] = "punched"
