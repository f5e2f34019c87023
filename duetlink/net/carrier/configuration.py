"""What the kernel tells its helper first, as one line of JSON: through a pipe, since it holds secrets."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import msgspec

from duetlink.base.wire import json_
from duetlink.settings import IceServer


@dataclass(frozen=True, slots=True)
class Configuration:
    """One attempt at one rung."""

    rung: str
    controlling: bool  # on exactly one of the two sides
    key: bytes = dataclasses.field(repr=False)  # 32 random bytes of this attempt alone
    ice_servers: tuple[IceServer, ...]  # of this side, in the order of preference
    map_port: bool  # whether this side's user allows to ask the router for a port
    flight_port: int  # of this side's Flight server
    flight_host: str = "127.0.0.1"  # where this machine reaches it
    listen: str | None = None  # the address at which a rung may listen; None: all

    def to_json(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Configuration:
        return json_.read(text, cls)
