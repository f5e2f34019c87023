"""The answers of a room: results, faults, frozen values and outcomes of functions, written and read here.

A room that answers has run the peer's steps, or an approved function, so the kernel checks everything. A
malformed answer raises WorkerUnavailable. The readers close the descriptors that come with an answer, except
that of a frozen value, which `read_frozen` returns.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from duetlink.base.runtime import shared_memory
from duetlink.base.wire.text import harmless
from duetlink.compute.worker.protocol.faults import Fault
from duetlink.compute.worker.protocol.groups import EVERYBODY, Group, State
from duetlink.compute.worker.protocol.memory import close_all, map_sealed, place
from duetlink.data.values.base import Encoded, Part, Summary
from duetlink.errors import RemoteProtocolError, WorkerUnavailable

MAX_TEXT = 2_000  # characters
MAX_WORDS = 200

Answer = tuple[bytes, Sequence[int]]


# -- a result of steps ---------------------------------------------------------------------------------------


def result(encoded: Encoded, group: Group) -> Answer:
    """Answer with a value and its group (`groups.py`). Raises WorkLimit if there is no memory for it."""
    memory = place(encoded.segments, encoded.size_bytes)
    return json.dumps(_describe(encoded, group)).encode(), (memory,)


def no_result(fault: Fault) -> Answer:
    return json.dumps({"fault": fault.to_list()}).encode(), ()


def read_result(content: bytes, fds: Sequence[int]) -> tuple[Encoded, int | None] | Fault:
    """Read a result, mapped without a copy, and its group (None: it contains nothing of an asset); or a
    fault.

    Raises WorkerUnavailable.
    """
    fields = _parse(content)
    if isinstance(fields, dict) and "fault" in fields:
        close_all(fds)
        try:
            return Fault.from_list(fields["fault"])
        except (ValueError, TypeError):
            raise WorkerUnavailable("the room's answer is not a valid fault") from None
    return _read_value(fields, fds)


# -- a frozen value ------------------------------------------------------------------------------------------


def frozen(fd: int, size_bytes: int, state: State) -> Answer:
    """Answer with a frozen value: the result of the first steps of a program, for later rooms."""
    return json.dumps({"frozen": size_bytes, "state": state}).encode(), (fd,)


def nothing_frozen() -> Answer:
    return json.dumps({"frozen": None}).encode(), ()


def read_frozen(content: bytes, fds: Sequence[int]) -> tuple[int, int, State] | None:
    """Read a frozen value: its descriptor, which the caller must close, its size in bytes, and its groups.

    Returns None if nothing was frozen. Raises WorkerUnavailable.
    """
    fields = _parse(content)
    try:
        size_bytes, state = fields["frozen"], fields.get("state")
        if size_bytes is None:
            close_all(fds)
            return None
        (fd,) = fds
        if not (type(size_bytes) is int and shared_memory.is_sealed(fd, size_bytes)):
            raise ValueError("the descriptor is not sealed memory of that size")
        found = State(*state)
        if any(type(group) not in (int, float) for group in found):
            raise ValueError("a group is not a number")
    except (ValueError, TypeError, KeyError, AttributeError, OSError):
        close_all(fds)
        raise WorkerUnavailable("the room's answer is not a valid frozen value") from None
    return fd, size_bytes, found


# -- the outcome of a function -------------------------------------------------------------------------------


def made(encoded: Encoded) -> Answer:
    """Answer with the return value of a function. Raises WorkLimit if there is no memory for it."""
    memory = place(encoded.segments, encoded.size_bytes)
    return json.dumps({"made": _describe(encoded, 1)}).encode(), (memory,)


def failed(failure: dict[str, Any]) -> Answer:
    return json.dumps({"failed": failure}).encode(), ()


def read_outcome(content: bytes, fds: Sequence[int]) -> Encoded | dict[str, Any]:
    """Read the return value of a function, or the dictionary that describes its failure (`room/job.py`).

    Raises WorkerUnavailable.
    """
    fields = _parse(content)
    failure, found = (fields.get("failed"), fields.get("made")) if isinstance(fields, dict) else (None, None)
    if isinstance(failure, dict) and found is None:
        close_all(fds)
        return failure
    encoded, _ = _read_value(found if failure is None else None, fds)
    return encoded


# -- a value -------------------------------------------------------------------------------------------------


class _Value(msgspec.Struct, frozen=True):
    kind: str
    detail: str
    elements: int | None
    size_bytes: int
    parts: list[tuple[int, int, str, int]]
    group: int | None


def _describe(encoded: Encoded, group: Group) -> dict[str, Any]:
    summary = encoded.summary
    return {
        "kind": summary.kind,
        "detail": summary.detail,
        "elements": summary.elements,
        "size_bytes": encoded.size_bytes,
        "parts": [
            (part.start_bytes, part.size_bytes, part.element, part.row_bytes) for part in encoded.parts
        ],
        "group": None if group >= EVERYBODY else int(group),
    }


def _read_value(fields: Any, fds: Sequence[int]) -> tuple[Encoded, int | None]:
    try:
        value = msgspec.convert(fields, _Value)
        (fd,) = fds
        body = map_sealed(fd, value.size_bytes, writable_copy=False)
    except (ValueError, OverflowError, RemoteProtocolError):
        raise WorkerUnavailable("the room's answer is no result") from None
    finally:
        close_all(fds)
    kind, detail = harmless(value.kind[:MAX_WORDS]), harmless(value.detail[:MAX_TEXT])
    summary = Summary(kind, detail, value.size_bytes, value.elements)
    return Encoded(
        (body,), value.size_bytes, summary, tuple(Part(*part) for part in value.parts)
    ), value.group


def _parse(content: bytes) -> Any:
    """Parse JSON; None if it is malformed, which no reader accepts."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None
