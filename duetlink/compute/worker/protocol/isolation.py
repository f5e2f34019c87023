"""The isolation of a room: the mechanisms in force, as the room reports them after its lockdown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import msgspec

from duetlink.errors import RemoteProtocolError

Words = Annotated[str, msgspec.Meta(max_length=200)]


@dataclass(frozen=True, slots=True)
class Isolation:
    """The mechanisms in force against each kind of escape, strongest first, or "none"."""

    filesystem: Words
    network: Words
    processes: Words
    memory: Words
    enforced: bool  # True: Linux enforces it (Landlock and seccomp); False: only Python's audit hook does

    def to_wire(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_wire(cls, fields: Mapping[str, Any]) -> Isolation:
        """Read the fields that a room sent. Raises RemoteProtocolError if they are malformed."""
        try:
            return msgspec.convert(fields, cls)
        except ValueError:
            raise RemoteProtocolError("the room does not say how it is isolated") from None

    def __str__(self) -> str:
        return (
            f"files: {self.filesystem}; network: {self.network}; processes: {self.processes}; "
            f"memory: {self.memory}"
        )
