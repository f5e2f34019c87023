"""What one kernel knows of its duet: shown by the last cell of each demo notebook, read back by the demo.

In the notebook it is two tables; next to them, in the same output, travels the same as JSON.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duetlink.demo.errors import DemoFailed
from duetlink.duet.display import Table, size_text
from duetlink.link.transfer import TransferStatus

if TYPE_CHECKING:
    from duetlink.duet.duet import Duet

MIME_TYPE = "application/vnd.duetlink.summary+json"


@dataclass(frozen=True, slots=True)
class AnsweredRequest:
    """One row of the owner's `duet.requests`."""

    name: str
    size_bytes: int
    reason: str
    state: str
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
    def of(cls, duet: Duet) -> Summary:
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
                    request.reason,
                    request.state,
                    getattr(request, "answer_reason", ""),
                )
                for request in duet.requests
            ),
        )

    @classmethod
    def from_outputs(cls, outputs: Iterable[Mapping[str, Any]]) -> Summary:
        """Read back what a notebook's cell has shown. Raises DemoFailed if no output is a summary."""
        for output in outputs:
            if (data := output.get("data", {}).get(MIME_TYPE)) is not None:
                values = json.loads(data) if isinstance(data, str) else dict(data)
                values["transfers"] = tuple(TransferStatus(**entry) for entry in values["transfers"])
                values["requests"] = tuple(AnsweredRequest(**entry) for entry in values["requests"])
                return cls(**values)
        raise DemoFailed("the cell tagged 'summary' has to show `Summary.of(duet)`, and did not")

    def _tables(self) -> tuple[Table, Table]:
        trip = "not measured" if self.round_trip_s is None else f"{self.round_trip_s * 1000:.1f} ms"
        link = Table(
            "The link",
            ("", ""),
            [
                ("peer", self.peer),
                ("verifier", self.verifier),
                ("path", self.path),
                ("round trip", trip),
                ("sent", size_text(self.sent_bytes)),
                ("received", size_text(self.received_bytes)),
            ],
        )
        arrows = {"in": "came in", "out": "went out"}
        rows = [
            (
                transfer.name,
                arrows[transfer.direction],
                size_text(transfer.size_bytes),
                *times(transfer),
                transfer.path,
                transfer.state,
            )
            for transfer in self.transfers
        ]
        headers = ("object", "direction", "size", "took", "rate", "path", "state")
        return link, Table("What moved", headers, rows, "nothing moved")

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        tables = self._tables()
        return {
            "text/plain": "\n\n".join(repr(table) for table in tables),
            "text/html": "<br>".join(table._repr_html_() for table in tables),
            MIME_TYPE: dataclasses.asdict(self),
        }


def seconds_text(duration_s: float) -> str:
    """`1.23 s`, or milliseconds below a second."""
    return f"{duration_s:.2f} s" if duration_s >= 0.9995 else f"{duration_s * 1000:.3g} ms"


def times(transfer: TransferStatus) -> tuple[str, str]:
    """How long a transfer took and its rate, in MB/s of 10^6 bytes, where its record measures that.

    The sender's record does: it runs from the offer, before a byte is written, until the receiver says that
    all is there. The receiver's begins when the offer has come. On the path `local` the bytes have been
    written by then and are only mapped, so size by that time would be a rate that no memory has. An inline
    value rides in a message and takes no time of its own.
    """
    if transfer.path == "inline":
        return "", "in a message"
    if transfer.path == "local" and transfer.direction == "in":
        return "", "mapped"
    rate = transfer.bytes_per_s / 1e6
    return seconds_text(transfer.duration_s), f"{rate:,.0f} MB/s" if rate >= 99.5 else f"{rate:.3g} MB/s"
