"""What the kernel tells its helper first, as one line of JSON: through a pipe, since it holds secrets."""

from __future__ import annotations

import base64
import dataclasses
import json
from dataclasses import dataclass

from duetlink.settings import IceServer


@dataclass(frozen=True, slots=True)
class Configuration:
    """One attempt at one rung."""

    rung: str
    controlling: bool
    key: bytes = dataclasses.field(repr=False)
    ice_servers: tuple[IceServer, ...]
    map_port: bool
    flight_port: int  # of this side's Flight server
    flight_host: str = "127.0.0.1"  # where this machine reaches it
    listen: str | None = None  # the address at which a rung may listen; None: all

    def to_json(self) -> str:
        fields = dataclasses.asdict(self)
        fields["key"] = base64.b64encode(self.key).decode()
        return json.dumps(fields)

    @classmethod
    def from_json(cls, text: str | bytes) -> Configuration:
        fields = json.loads(text)
        fields["key"] = base64.b64decode(fields["key"])
        fields["ice_servers"] = tuple(IceServer.from_json(entry) for entry in fields["ice_servers"])
        return cls(**fields)
