"""Errors across the wire: a fixed table of the classes that may travel, and their form on arrival."""

from __future__ import annotations

from duetlink import errors
from duetlink.base.wire import schema_pb2 as pb
from duetlink.base.wire.text import harmless_lines

MAX_TEXT = 2000  # characters of a peer's message that are shown to the user

_KINDS: tuple[tuple[type[errors.DuetError], pb.Failure.Kind], ...] = (
    (errors.AssetNotFound, pb.Failure.NOT_FOUND),
    (errors.AssetChanged, pb.Failure.CHANGED),
    (errors.RequestDenied, pb.Failure.DENIED),
    (errors.TicketRefused, pb.Failure.TICKET),
    (errors.PathUnavailable, pb.Failure.PATH),
    (errors.ValueRefused, pb.Failure.REFUSED),
    (errors.TransferCancelled, pb.Failure.CANCELLED),
    (errors.LimitExceeded, pb.Failure.LIMIT),
    (errors.RemoteProtocolError, pb.Failure.PROTOCOL),
    (errors.OperationFailed, pb.Failure.OPERATION),
    (errors.OperationRefused, pb.Failure.NOT_ALLOWED),
    (errors.WorkLimit, pb.Failure.WORK_LIMIT),
    (errors.WorkerUnavailable, pb.Failure.WORKER),
    (errors.BudgetExceeded, pb.Failure.BUDGET),
    (errors.NoMock, pb.Failure.NO_MOCK),
)
_CLASSES = {kind: cls for cls, kind in _KINDS}


def to_wire(error: Exception) -> pb.Failure:
    """Return the failure message for `error`.

    Only errors of the table travel with their text; anything else becomes INTERNAL without a detail, since a
    traceback or a foreign exception's text may quote the owner's data.
    """
    for cls, kind in _KINDS:
        if isinstance(error, cls):
            reason = error.reason if isinstance(error, errors.RequestDenied) else ""
            return pb.Failure(kind=kind, text=str(error)[:MAX_TEXT], reason=reason[:MAX_TEXT])
    return pb.Failure(
        kind=pb.Failure.INTERNAL, text=f"{type(error).__name__} at the peer; its own log has the details"
    )


def from_wire(failure: pb.Failure) -> errors.DuetError:
    """Return the typed error for a failure message; unknown kinds become RemoteFailure."""
    text, reason = harmless_lines(failure.text[:MAX_TEXT]), harmless_lines(failure.reason[:MAX_TEXT])
    if failure.kind == pb.Failure.DENIED:
        return errors.RequestDenied(text, reason)
    if failure.kind == pb.Failure.PROTOCOL or failure.kind == pb.Failure.LIMIT:
        # for these kinds the peer reports an error of this side
        return errors.LocalProtocolError(f"the peer refused a message of ours: {text}")
    return _CLASSES.get(failure.kind, errors.RemoteFailure)(text)
