"""What a scientist reads of a step that failed at the owner.

The owner's side sends a place in the program, a code and the class of an error, and no words. The sentence is
made here, of those and of the operation's name as this side has recorded it.
"""

from __future__ import annotations

from duetlink.base.wire import schema_pb2 as pb
from duetlink.compute.worker.faults import error_name

_WORDS = {
    pb.WorkFailure.REFUSED: "{step} is not allowed for the real object or its real arguments, though it may "
    "be for their mocks; take another way to it, or have the owner review a function: @duet.remote",
    pb.WorkFailure.NOT_SHARED: "{step}: the object is not there to be worked on: it is no longer shared in "
    "this revision, or has no mock; begin anew with duet.store[…]",
    pb.WorkFailure.MALFORMED: "{step} names a result that is not there",
    pb.WorkFailure.CANNOT_TRAVEL: "{step} is nothing that can travel; ask for its parts",
    pb.WorkFailure.TOO_LARGE: "{step} is larger than the owner lets a result be; ask for a part of it",
}


def failure_words(failure: pb.WorkFailure, operation: str) -> str:
    """A sentence for a failure. `operation` is that of the step that failed first; empty: not known."""
    step = _step(failure, operation)
    if failure.code == pb.WorkFailure.RAISED:
        return f"{step} failed on the real data: {error_name(failure.error)}"
    if failure.code in _WORDS:
        return _WORDS[failure.code].format(step=step)
    return f"{step} failed on the real data; its owner can tell more"


def _step(failure: pb.WorkFailure, operation: str) -> str:
    if not failure.batch:
        return f"result {failure.result}"
    return f"the step {operation}" if operation else "an earlier step"
