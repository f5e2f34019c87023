"""What a room may use up."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field

from duetlink.errors import SettingError

GIB = 1 << 30

_LEAST_MEMORY_BYTES = 64 * 1024 * 1024


def _half_of_the_cores() -> int:
    return max(1, (os.cpu_count() or 1) // 2)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one room, for all its life where nothing else is said. Raises SettingError."""

    memory_bytes: int = 4 * GIB  # beside the libraries and the assets that it is given
    result_bytes: int = 1 * GIB  # of what one command may give back
    wall_s: float = 300.0  # of one command
    cpu_s: float = 4 * 3600.0  # processor time of all its threads
    threads: int = field(default_factory=_half_of_the_cores)  # of the libraries that compute

    def __post_init__(self) -> None:
        if self.memory_bytes < _LEAST_MEMORY_BYTES:
            raise SettingError(
                f"memory_bytes is {self.memory_bytes:,}; a room needs {_LEAST_MEMORY_BYTES:,} at least"
            )
        if self.result_bytes < 1:
            raise SettingError(f"result_bytes is {self.result_bytes:,}; it must be 1 at least")
        for name, seconds in (("wall_s", self.wall_s), ("cpu_s", self.cpu_s)):
            if not (math.isfinite(seconds) and seconds > 0):
                raise SettingError(f"{name} is {seconds}; it must be a number of seconds over 0")
        if self.threads < 1:
            raise SettingError(f"threads is {self.threads}; it must be 1 at least")
