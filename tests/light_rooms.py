"""Rooms where NumPy alone is installed: to import what else there is takes five seconds of a processor.

Two kernels of a duet have a zygote each, and these tests start a hundred kernels. What rooms do with other
libraries is tested elsewhere.
"""

from __future__ import annotations

import socket
from asyncio.subprocess import Process
from pathlib import Path

from duetlink.compute.worker.kernel import process, rooms
from duetlink.compute.worker.kernel import spawn as spawning
from duetlink.compute.worker.protocol.libraries import LIBRARIES

_OTHERS = sorted(set(LIBRARIES) - {"numpy", "pyarrow", "duetlink"})
HIDING = f"""
import sys
from importlib.machinery import PathFinder
class Hiding(PathFinder):
    @classmethod
    def find_spec(cls, name, *more):
        return None if name in {_OTHERS} else super().find_spec(name, *more)
sys.meta_path[sys.meta_path.index(PathFinder)] = Hiding
"""


def use() -> None:
    """Every room of this process is such a one from now on."""

    async def spawn(bootstrap: str, threads: int) -> tuple[Process, socket.socket]:
        return await start(HIDING + bootstrap, threads)

    start = spawning.spawn
    process.spawn = rooms.spawn = spawn  # type: ignore[attr-defined]


def of_kernels(directory: Path) -> dict[str, str]:
    """Variables of Jupyter kernels whose rooms are such ones; the directory is made for it."""
    startup = directory / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "light_rooms.py").write_text("from tests import light_rooms\n\nlight_rooms.use()\n", "utf-8")
    return {"IPYTHONDIR": str(directory)}
