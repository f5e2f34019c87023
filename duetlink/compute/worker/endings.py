"""Why a worker has ended: in full for its owner, and from a closed list for the peer whose steps it did."""

from __future__ import annotations

import signal
from typing import NamedTuple

from duetlink.base.wire import schema_pb2 as pb
from duetlink.compute.worker.limits import Limits

# what runtimes other than Python's write before they give up; on which system is the same
_OUT_OF_MEMORY = (
    b"memory allocation of",
    b"bad_alloc",
    b"ut of memory",
    b"annot allocate memory",
    b"MemoryError",
)
_WORDS = {
    pb.WorkEnd.CLOSED: "its owner has ended it",
    pb.WorkEnd.MEMORY: "the worker needed more than its {:,.0f} bytes of memory, and ended",
    pb.WorkEnd.TIME: "a command took over {:g} s, and the worker was ended",
    pb.WorkEnd.PROCESSOR_TIME: "the worker took over {:g} s of processor time, and was ended",
    pb.WorkEnd.KILLED: "the worker was ended by the system or a person: most likely memory ran out, or its "
    "{:g} s of processor time",
    pb.WorkEnd.CRASHED: "the worker has crashed",
    pb.WorkEnd.REFUSED: "a batch of steps could not be done at all; the owner's log has the reason",
    pb.WorkEnd.UNAVAILABLE: "no worker can be started there; the owner's log has the reason",
    pb.WorkEnd.UNRECORDED: "the owner's audit log cannot be written, and no object is worked on without it; "
    "try again later",
    pb.WorkEnd.DEFECT: "a defect on the owner's side, whose log has the details",
}
_LIMITS = frozenset((pb.WorkEnd.MEMORY, pb.WorkEnd.TIME, pb.WorkEnd.PROCESSOR_TIME, pb.WorkEnd.KILLED))


class Ending(NamedTuple):
    """How a worker ended."""

    why: str  # for the owner: with what the worker itself gave away, such as its exit status
    told: pb.WorkEnd  # for the peer

    @property
    def is_limit(self) -> bool:
        """Whether it was a limit of the owner's."""
        return self.told.why in _LIMITS


def ending(why: pb.WorkEnd.Why, limit: float = 0.0) -> Ending:
    """One of the closed list, in the same words for both sides."""
    told = pb.WorkEnd(why=why, limit=limit)
    return Ending(words(told), told)


def words(told: pb.WorkEnd) -> str:
    """What the peer reads. Total: a code that this version does not know has words as well."""
    return _WORDS.get(told.why, "the worker has ended").format(told.limit)


def of_status(status: int, last_words: bytes, limits: Limits) -> Ending:
    """Of a process that ended by itself: its exit status, or the signal's number below 0."""
    if any(text in last_words for text in _OUT_OF_MEMORY) and -status not in (
        signal.SIGKILL,
        signal.SIGXCPU,
    ):
        return ending(pb.WorkEnd.MEMORY, limits.memory_bytes)
    if -status == signal.SIGXCPU:
        return ending(pb.WorkEnd.PROCESSOR_TIME, limits.cpu_s)
    if -status == signal.SIGKILL:
        return ending(pb.WorkEnd.KILLED, limits.cpu_s)
    how = f"ended by itself, with status {status}" if status >= 0 else f"crashed ({_name(-status)})"
    return Ending(f"the worker {how}", pb.WorkEnd(why=pb.WorkEnd.CRASHED))


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
