"""The reasons why a room ended, in words for its owner. The peer sees them only if the owner approves it."""

from __future__ import annotations

import signal
from typing import NamedTuple

from duetlink.compute.worker.protocol.limits import Limits

# messages by which Rust, C++ and C libraries report that memory ran out, on all systems
_OUT_OF_MEMORY = (
    b"memory allocation of",
    b"bad_alloc",
    b"ut of memory",
    b"annot allocate memory",
    b"MemoryError",
)


class Ending(NamedTuple):
    """The end of a room."""

    why: str  # includes what the room controls itself, such as its exit status
    is_limit: bool = False  # a limit set by the owner was reached
    is_killed: bool = False  # killed by the system or a person


def timed_out(timeout_s: float) -> Ending:
    """Describe the end of a room that took too long."""
    return Ending(f"a command took over {timeout_s:g} s, and the room was ended", is_limit=True)


def from_status(status: int, last_words: bytes, limits: Limits) -> Ending:
    """Describe the end of a process that this side did not kill.

    `status` is its exit status, or the negative number of the signal that ended it; `last_words` the end of
    its standard error.
    """
    if any(text in last_words for text in _OUT_OF_MEMORY) and -status not in (
        signal.SIGKILL,
        signal.SIGXCPU,
    ):
        memory = f"the room needed more than its {limits.memory_bytes:,.0f} bytes of memory, and ended"
        return Ending(memory, is_limit=True)
    if -status == signal.SIGXCPU:
        return Ending(
            f"the room took over {limits.cpu_s:g} s of processor time, and was ended", is_limit=True
        )
    if -status == signal.SIGKILL:
        killed = (
            "the room was ended by the system or a person: most likely memory ran out, or its "
            f"{limits.cpu_s:g} s of processor time"
        )
        return Ending(killed, is_limit=True, is_killed=True)
    how = f"ended by itself, with status {status}" if status >= 0 else f"crashed ({_name(-status)})"
    return Ending(f"the room {how}")


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
