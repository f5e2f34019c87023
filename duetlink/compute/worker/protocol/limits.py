"""The limits of a room: memory, result size, time, threads."""

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
    """The limits of one room, for its whole life unless a comment says otherwise.

    Raises SettingError if a value is out of range.
    """

    memory_bytes: int = 4 * GIB  # in addition to the libraries and the assets that it is given
    result_bytes: int = 1 * GIB  # for the memory that one command may return
    wall_s: float = 300.0  # for one command
    cpu_s: float = 4 * 3600.0  # processor time of all its threads
    threads: int = field(default_factory=_half_of_the_cores)  # for the libraries' computations

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
