"""What a process holds, as /proc tells: descriptors by kind, mappings, threads, private memory. Linux."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

import psutil

DESCRIPTORS = ("descriptors", "memfds", "sockets", "pipes", "files", "other descriptors")
_KIND = re.compile(r"duetlink\.(?:compute|net)\.(worker|carrier)")
_KIB = re.compile(r"^(Private_Clean|Private_Dirty):\s+(\d+) kB", re.MULTILINE)


def held(pid: int) -> dict[str, int]:
    """What it holds now. Where its user has closed it to others (a worker does), only what its status says.

    Raises ProcessLookupError: it has ended.
    """
    process = Path(f"/proc/{pid}")
    try:
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    except (FileNotFoundError, ProcessLookupError):
        raise ProcessLookupError(f"process {pid} has ended") from None
    if status["State"].split()[0] == "Z":
        raise ProcessLookupError(f"process {pid} has ended")
    found = {"threads": int(status["Threads"])}
    try:
        found |= _descriptors(process)
        maps = (process / "maps").read_text().splitlines()
        found["mappings"] = len(maps)
        found["mapped bytes"] = sum(_length(line) for line in maps)
        rollup = _KIB.findall((process / "smaps_rollup").read_text())
        found["private bytes"] = sum(int(kib) * 1024 for _, kib in rollup)
    except PermissionError:
        found["private bytes"] = int(status["RssAnon"].split()[0]) * 1024
    except FileNotFoundError:
        raise ProcessLookupError(f"process {pid} has ended") from None
    return found


def children(pid: int) -> list[tuple[int, str]]:
    """Its descendants that are duetlink's, with what each is: "worker" or "carrier"."""
    found = []
    for child in psutil.Process(pid).children(recursive=True):
        try:
            words = " ".join(child.cmdline())
        except psutil.Error:
            continue
        if kind := _KIND.search(words):
            found.append((child.pid, kind[1]))
    return found


def _descriptors(process: Path) -> dict[str, int]:
    found: Counter[str] = Counter(dict.fromkeys(DESCRIPTORS, 0))
    for fd in os.listdir(process / "fd"):
        try:
            target = os.readlink(process / "fd" / fd)
        except FileNotFoundError:
            continue
        found["descriptors"] += 1
        found[_kind(target)] += 1
    return dict(found)


def _kind(target: str) -> str:
    if target.startswith("/memfd:"):
        return "memfds"
    if target.startswith("socket:"):
        return "sockets"
    if target.startswith("pipe:"):
        return "pipes"
    return "files" if target.startswith("/") else "other descriptors"


def _length(line: str) -> int:
    begin, end = line.split(" ", 1)[0].split("-")
    return int(end, 16) - int(begin, 16)
