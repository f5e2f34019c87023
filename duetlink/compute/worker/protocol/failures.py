"""Errors on the way from a room to its kernel. Only the classes in a fixed table may cross."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duetlink import errors

MAX_TEXT = 2000  # characters

_CLASSES: Mapping[str, type[errors.DuetError]] = {
    cls.__name__: cls
    for cls in (
        errors.AssetChanged,
        errors.AssetNotFound,
        errors.BudgetExceeded,
        errors.LimitExceeded,
        errors.LocalProtocolError,
        errors.MalformedValue,
        errors.MissingLibrary,
        errors.NoMock,
        errors.OperationFailed,
        errors.OperationRefused,
        errors.PrivateValue,
        errors.RemoteFailure,
        errors.RemoteProtocolError,
        errors.SettingError,
        errors.UnsupportedValue,
        errors.ValueRefused,
    )
}


def to_wire(error: BaseException) -> dict[str, str]:
    """Describe an error for the kernel: class and text for the table's classes, only the class for all
    others.

    The text of other errors stays in the room, because it may quote the data.
    """
    for cls in type(error).__mro__:
        if cls.__name__ in _CLASSES and cls is _CLASSES[cls.__name__]:
            return {"kind": cls.__name__, "text": str(error)[:MAX_TEXT]}
    if isinstance(error, errors.WorkLimit):  # at the kernel this class would mean that the room has ended
        return {"kind": "OperationFailed", "text": str(error)[:MAX_TEXT]}
    if is_memory_error(error):
        return {"kind": "OperationFailed", "text": "it needs more memory than the owner allows (MemoryError)"}
    return {"kind": "RemoteFailure", "text": f"{type(error).__name__} in the room"}


def from_wire(header: Mapping[str, Any]) -> errors.DuetError:
    """Make the error that a room's header describes. Raises RemoteProtocolError if it is malformed."""
    kind, text = header.get("kind"), header.get("text")
    if type(kind) is not str or type(text) is not str or kind not in _CLASSES:
        raise errors.RemoteProtocolError("the room reports an error of an unknown class")
    return _CLASSES[kind](text[:MAX_TEXT])


def is_memory_error(error: BaseException) -> bool:
    """True if a library raised this error because memory ran out."""
    if isinstance(error, MemoryError):
        return True
    # torch's CPU allocator raises a RuntimeError in this case
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator: " in str(error)[:400]
