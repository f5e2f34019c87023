"""What one kernel knows of its duets: the demo asks for it when all notebooks have been played."""

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

# evaluated in a kernel, in its notebook's namespace
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
    """One side's duet at the end: from `duet`, `duet.statistics()` and `duet.requests`, nothing else."""

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
    """The summaries of the duets in a namespace, as JSON."""
    from duetlink.duet.duet import Duet  # not where it is only read

    duets = {id(value): value for value in namespace.values() if isinstance(value, Duet)}
    return msgspec.json.encode([Summary.of(duet) for duet in duets.values()]).decode()


def told(text: str) -> list[Summary]:
    """What `tell` wrote."""
    return json_.read(text, list[Summary])


def tell_group(namespace: Mapping[str, Any]) -> str:
    """The status of `group` in a namespace, as JSON."""
    return msgspec.json.encode(namespace["group"].status()).decode()


def told_group(text: str) -> GroupStatus:
    """What `tell_group` wrote."""
    return json_.read(text, GroupStatus)


def seconds_text(duration_s: float) -> str:
    """`1.23 s`, or milliseconds below a second."""
    return f"{duration_s:.2f} s" if duration_s >= 0.9995 else f"{duration_s * 1000:.3g} ms"


def times(transfer: TransferStatus) -> tuple[str, str]:
    """How long a transfer took and its rate, where its record measures that.

    The sender's record does: it runs from the offer, before a byte is written, until the receiver says that
    all is there. The receiver's begins when the offer has come. On the path `local` the bytes have been
    written by then and are only mapped, so size by that time would be a rate that no memory has. An inline
    value rides in a message and takes no time of its own.
    """
    if transfer.path == "inline":
        return "", "in a message"
    if transfer.path == "local" and transfer.direction == "in":
        return "", "mapped"
    return seconds_text(transfer.duration_s), rate_text(transfer.bytes_per_s)
