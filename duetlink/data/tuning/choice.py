"""One codec at one level: the unit that the tuner chooses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from duetlink.data.codecs.base import Codec

Key: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Choice:
    """`raw` means: send the chunk as it is, without a container."""

    codec: Codec
    level: int

    @property
    def raw(self) -> bool:
        return self.codec.name == "raw"

    @property
    def key(self) -> Key:
        return self.codec.name, self.level

    def __str__(self) -> str:
        return self.codec.name if len(self.codec.levels) == 1 else f"{self.codec.name} {self.level}"
