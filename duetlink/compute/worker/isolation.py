"""How well a room is shut in, as it says itself once it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from duetlink.errors import RemoteProtocolError

_MOST_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Isolation:
    """The mechanisms in force against each kind of escape, best first; "none" where there is none."""

    filesystem: str
    network: str
    processes: str
    memory: str
    enforced: bool  # the system itself refuses all but memory and computing; else it is Python that does

    def to_wire(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_wire(cls, fields: Mapping[str, Any]) -> Isolation:
        """Raises RemoteProtocolError."""
        words = [fields.get(name) for name in ("filesystem", "network", "processes", "memory")]
        enforced = fields.get("enforced")
        if type(enforced) is not bool or not all(
            type(word) is str and len(word) <= _MOST_CHARACTERS for word in words
        ):
            raise RemoteProtocolError("the room does not say how it is isolated")
        filesystem, network, processes, memory = map(str, words)
        return cls(filesystem, network, processes, memory, enforced)

    def __str__(self) -> str:
        return (
            f"files: {self.filesystem}; network: {self.network}; processes: {self.processes}; "
            f"memory: {self.memory}"
        )
