"""The first line that the kernel writes to its helper, as JSON.

It goes through a pipe, since it holds secrets.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import msgspec

from duetlink.base.wire import json_
from duetlink.settings import IceServer


@dataclass(frozen=True, slots=True)
class Configuration:
    """One attempt at one path."""

    rung: str
    controlling: bool  # True on exactly one of the two sides
    key: bytes = dataclasses.field(repr=False)  # 32 random bytes, for this attempt only
    ice_servers: tuple[IceServer, ...]  # of this side, preferred ones first
    map_port: bool  # True if this side may ask the router for a port mapping
    flight_port: int  # of this side's Flight server
    flight_host: str = "127.0.0.1"  # the address by which this machine reaches it
    listen: str | None = None  # the address on which a driver may listen; None: all

    def to_json(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Configuration:
        return json_.read(text, cls)
