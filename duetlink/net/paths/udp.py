"""Rung `udp`: a tunnel of our own on the addresses that ICE finds, straight through most pairs of NATs."""

from __future__ import annotations

from typing import ClassVar

from duetlink.net.paths.carried import CarriedPath


class UdpPath(CarriedPath):
    """Flight through a tunnel over UDP, from one side straight to the other."""

    name: ClassVar[str] = "udp"
