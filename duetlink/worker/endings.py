"""Why a worker has ended, in words that may be shown to a peer: nothing that it has written itself."""

from __future__ import annotations

import signal
from typing import NamedTuple

from duetlink.worker.limits import Limits

# what runtimes other than Python's write before they give up; on which system is the same
_OUT_OF_MEMORY = (
    b"memory allocation of",
    b"bad_alloc",
    b"ut of memory",
    b"annot allocate memory",
    b"MemoryError",
)


class Ending(NamedTuple):
    """How it ended, and whether that was a limit of the owner's."""

    why: str
    limit: bool


def of_status(status: int, last_words: bytes, limits: Limits) -> Ending:
    """Of a process that ended by itself: its exit status, or the signal's number below 0."""
    if status >= 0:
        if any(words in last_words for words in _OUT_OF_MEMORY):
            return _out_of_memory(limits)
        return Ending(f"the worker ended by itself, with status {status}", False)
    name = _name(-status)
    if -status == signal.SIGXCPU:
        return Ending(f"the worker took over {limits.cpu_s:g} s of processor time, and was ended", True)
    if -status == signal.SIGKILL:
        return Ending(
            "the worker was ended by the system or a person (SIGKILL): most likely memory ran out, or its "
            f"{limits.cpu_s:g} s of processor time",
            True,
        )
    if any(words in last_words for words in _OUT_OF_MEMORY):
        return _out_of_memory(limits)
    return Ending(f"the worker crashed ({name})", False)


def _out_of_memory(limits: Limits) -> Ending:
    return Ending(f"the worker needed more than its {limits.memory_bytes:,} bytes of memory, and ended", True)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
