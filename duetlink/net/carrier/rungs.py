"""Which driver serves which rung. It is imported when it is needed: a process has one, and starts quickly."""

from __future__ import annotations

from importlib import import_module

from duetlink.net.carrier.driver import Establish

_DRIVERS = {
    "udp": ("duetlink.net.carrier.ice", "establish_direct"),
    "relay": ("duetlink.net.carrier.ice", "establish_relayed"),
    "punched": ("duetlink.net.carrier.punch", "establish"),
}


def driver_of(rung: str) -> Establish:
    """The driver of that rung; KeyError for an unknown one."""
    module, name = _DRIVERS[rung]
    driver: Establish = getattr(import_module(module), name)
    return driver
