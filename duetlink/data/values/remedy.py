"""Advice for objects that cannot be sent: what to send instead, for common kinds."""

from __future__ import annotations

import dataclasses
import enum
import io
import os
import types
from collections import deque

_GENERAL = "send its data as builtins, arrays or frames, such as a dict of its fields"


# advice by the name of a method that the object has, the more special ones first
_BY_METHOD = {
    "savefig": "send its picture: .savefig(file, format='png') into an io.BytesIO, then file.getvalue()",
    "to_wkb": "send .to_wkb(), a frame whose geometry is bytes",
    "tocoo": "send .data, .row, .col and .shape of its .tocoo()",
    "to_dataframe": "send its .to_dataframe()",
    "_asdict": "send its ._asdict()",
    "__array_interface__": "send np.asarray(…) of it",
    "__array__": "send np.asarray(…) of it",
}


def noun_of(obj: object) -> str:
    """Return the noun for a message: `function`, or the name of the type."""
    if isinstance(obj, (types.FunctionType, types.BuiltinFunctionType, types.MethodType)):
        return "function"
    type_ = type(obj)
    return f"{type_.__module__}.{type_.__qualname__}"


def remedy_of(obj: object) -> str:
    """Return advice for an object of a library that has no value type here."""
    if isinstance(obj, io.IOBase):
        return "read it first, and send what .read() returns"
    if isinstance(obj, types.MethodType):
        return "code does not travel; send the data that it works on"
    if callable(getattr(obj, "get_params", None)) and callable(getattr(obj, "fit", None)):
        learned = sorted(name for name in vars(obj) if name.endswith("_") and not name.startswith("_"))
        arrays = f"the arrays that it has learned, {', '.join(f'.{name}' for name in learned[:4])}"
        fitted = arrays if learned else "its .get_params()"
        return f"send {fitted}; to fit one at the peer: duet.remote(estimator)"
    if isinstance(obj, enum.Enum):
        return "send its .value"
    if isinstance(obj, os.PathLike):
        return "send str(…) of it, or what .read_bytes() returns"
    if isinstance(obj, deque):
        return "send list(…) of it"
    if dataclasses.is_dataclass(obj):
        return "send dataclasses.asdict(…) of it"
    kind = type(obj)
    return next((words for method, words in _BY_METHOD.items() if hasattr(kind, method)), _GENERAL)
