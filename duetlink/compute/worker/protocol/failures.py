"""Errors from a room to its kernel: which classes may travel, by a fixed table."""

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
    """What tells the kernel of an error. The text of a foreign one stays here: it may quote the data."""
    for cls in type(error).__mro__:
        if cls.__name__ in _CLASSES and cls is _CLASSES[cls.__name__]:
            return {"kind": cls.__name__, "text": str(error)[:MAX_TEXT]}
    if isinstance(error, errors.WorkLimit):  # told like this it means that the room is gone, which it is not
        return {"kind": "OperationFailed", "text": str(error)[:MAX_TEXT]}
    if is_memory_error(error):
        return {"kind": "OperationFailed", "text": "it needs more memory than the owner allows (MemoryError)"}
    return {"kind": "RemoteFailure", "text": f"{type(error).__name__} in the room"}


def from_wire(header: Mapping[str, Any]) -> errors.DuetError:
    """The error that a room tells of. Raises RemoteProtocolError where it tells of none."""
    kind, text = header.get("kind"), header.get("text")
    if type(kind) is not str or type(text) is not str or kind not in _CLASSES:
        raise errors.RemoteProtocolError("the room tells of an error that there is not")
    return _CLASSES[kind](text[:MAX_TEXT])


def is_memory_error(error: BaseException) -> bool:
    """Whether a library says that there is no memory left."""
    if isinstance(error, MemoryError):
        return True
    # torch's allocator of ordinary memory says it by a RuntimeError
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator: " in str(error)[:400]
