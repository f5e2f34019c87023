"""Summaries of the duets in one kernel. The demo evaluates `tell` there after the last cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import msgspec

from duetlink.base.quantities import rate_text
from duetlink.base.wire import json_
from duetlink.groups.lifecycle.status import GroupStatus
from duetlink.net.link.transfer import TransferStatus

if TYPE_CHECKING:
    from duetlink.duet.duet import Duet

# expressions that the demo evaluates in a kernel, in the notebook's namespace
TELL = "__import__('duetlink.tools.demo.summary', fromlist=['tell']).tell(globals())"
TELL_GROUP = TELL.replace("tell", "tell_group")


@dataclass(frozen=True, slots=True)
class AnsweredRequest:
    """One row of the owner's `duet.requests`."""

    name: str
    size_bytes: int
    is_number: bool
    reason: str
    state: str
    by: str
    answer_reason: str


@dataclass(frozen=True, slots=True)
class Summary:
    """One side of a duet at the end, read from `duet`, `duet.statistics()` and `duet.requests`."""

    role: str
    peer: str
    state: str
    verifier: str
    path: str
    round_trip_s: float | None
    sent_bytes: int
    received_bytes: int
    transfers: tuple[TransferStatus, ...]
    requests: tuple[AnsweredRequest, ...]

    @classmethod
    def of(cls, duet: Duet) -> Self:
        statistics = duet.statistics()
        return cls(
            role=duet.role,
            peer=duet.peer or "",
            state=duet.state,
            verifier=duet.verifier or "",
            path=statistics.path or "",
            round_trip_s=statistics.round_trip_s,
            sent_bytes=statistics.sent_bytes,
            received_bytes=statistics.received_bytes,
            transfers=statistics.transfers,
            requests=tuple(
                AnsweredRequest(
                    request.asset.name,
                    request.asset.size_bytes,
                    request.asset.is_number,
                    request.reason,
                    request.state,
                    request.by,
                    request.answer_reason,
                )
                for request in duet.requests
            ),
        )


def tell(namespace: Mapping[str, Any]) -> str:
    """Return the summaries of the duets in a namespace as JSON."""
    from duetlink.duet.duet import Duet  # imported here, since the reading side does not need it

    duets = {id(value): value for value in namespace.values() if isinstance(value, Duet)}
    return msgspec.json.encode([Summary.of(duet) for duet in duets.values()]).decode()


def read_summaries(text: str) -> list[Summary]:
    return json_.read(text, list[Summary])


def tell_group(namespace: Mapping[str, Any]) -> str:
    """Return the status of the group in the variable `group` of a namespace as JSON."""
    return msgspec.json.encode(namespace["group"].status()).decode()


def read_group_status(text: str) -> GroupStatus:
    return json_.read(text, GroupStatus)


def seconds_text(duration_s: float) -> str:
    """Return `1.23 s`, or milliseconds below a second."""
    return f"{duration_s:.2f} s" if duration_s >= 0.9995 else f"{duration_s * 1000:.3g} ms"


def times(transfer: TransferStatus) -> tuple[str, str]:
    """Return the duration and the rate of a transfer in words, if its record measures them.

    The sender's record does: it runs from the offer, before a byte is written, until the receiver confirms
    the last byte. The receiver's record begins when the offer arrives. On the path `local` the bytes are
    written by then and only have to be mapped, so a rate would be meaningless. An inline value is part of a
    message and has no duration of its own.
    """
    if transfer.path == "inline":
        return "", "in a message"
    if transfer.path == "local" and transfer.direction == "in":
        return "", "mapped"
    return seconds_text(transfer.duration_s), rate_text(transfer.bytes_per_s)
