"""Processes that a process has started, and those that they have started."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Running:
    """One process, which another one with its number later is not."""

    pid: int
    begun: str  # in ticks of the system
    parent: int


def descendants(pid: int) -> list[Running]:
    """Those of a process, parents before children."""
    all_ = [seen for name in os.listdir("/proc") if name.isdecimal() and (seen := _look(int(name)))]
    found: list[Running] = []
    parents = [pid]
    while parents:
        children = [one for one in all_ if one.parent in parents]
        found += children
        parents = [one.pid for one in children]
    return found


def left_of(processes: list[Running]) -> list[Running]:
    """Those that have not ended, whoever is their parent now."""
    return [one for one in processes if (now := _look(one.pid)) is not None and now.begun == one.begun]


def _look(pid: int) -> Running | None:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else Running(pid, fields[19], int(fields[1]))
