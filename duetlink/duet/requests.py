"""The owner's queue: requests of the peer with their numbers, answered or not."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from typing import Any, overload

from duetlink.duet.asset import AssetInfo
from duetlink.duet.display import Table, size_text, visible
from duetlink.duet.inbox import Inbox
from duetlink.duet.incoming import Incoming
from duetlink.duet.policies.policy import Policy, literal
from duetlink.duet.preview import preview_of
from duetlink.errors import SettingError
from duetlink.runtime.loop import LoopThread


class Request:
    """One request of the peer: who asks for what, and why."""

    def __init__(self, incoming: Incoming, inbox: Inbox, thread: LoopThread) -> None:
        self._incoming = incoming
        self._inbox = inbox
        self._thread = thread

    @property
    def number(self) -> int:
        """Its index in `duet.requests`; it never changes."""
        return self._incoming.number

    @property
    def asset(self) -> AssetInfo:
        """What would leave: name, revision, type, size."""
        return self._incoming.asset

    @property
    def peer(self) -> str:
        return self._incoming.peer_name

    @property
    def reason(self) -> str:
        """The peer's words."""
        return self._incoming.reason

    @property
    def state(self) -> str:
        """`pending`, `approved`, `denied` or `withdrawn`."""
        return self._incoming.state

    @property
    def times(self) -> int:
        """How often the peer has asked for it; once approved, the next times are answered at once."""
        return self._incoming.times

    @property
    def answer_reason(self) -> str:
        """The words that the answer was given with."""
        return self._incoming.answer_reason

    @property
    def by(self) -> str:
        """Who answered: `person`, or `policy NAME`; empty while it is pending, or where it was withdrawn."""
        return self._incoming.by

    @property
    def answered(self) -> datetime.datetime | None:
        """When it was answered or withdrawn; None while it is pending."""
        return self._incoming.answered

    @property
    def arrived(self) -> datetime.datetime:
        return self._incoming.arrived

    def preview(self) -> str:
        """The beginning of what would leave, as text; of an object over 16 MiB, of what it was made from.

        Raises AssetNotFound, AssetChanged: what was asked for is no longer shared.
        """
        asset = self._inbox.catalogue.find_mine(self.asset.name, self.asset.revision)
        return preview_of(asset.content)

    def approve(self) -> None:
        """Let this revision of the object leave to the peer, now and when it asks again.

        Raises:
            RequestAnswered: answered or withdrawn before.
            AssetNotFound, AssetChanged: what was asked for is no longer shared.
            AuditUnavailable: the audit log cannot be written; nothing has left.
            LinkClosed: the peer is gone.
        """
        self._thread.run(self._inbox.approve(self._incoming))

    def deny(self, reason: str = "") -> None:
        """Say no, for a reason that the peer gets to read. Raises RequestAnswered, LinkClosed."""
        if not isinstance(reason, str):
            raise SettingError(f"a reason is a text, got {type(reason).__name__}")
        self._thread.run(self._inbox.deny(self._incoming, reason))

    def like_this(self, **changes: Any) -> Policy:
        """A policy that would approve this request, and as little else as a policy can: this object in any
        revision with these very tags and this type, as large at most, for a peer of this name, ten times,
        until the end of the day. `changes` are fields of `Policy`; `duet.policies.add` puts it in force.

        Raises SettingError: a change cannot be used.
        """
        asset = self.asset
        fields: dict[str, Any] = {
            "name": f"like request {self.number}",
            "assets": (literal(asset.name),),
            "tags": tuple(literal(tag) for tag in asset.tags),
            "no_other_tags": True,
            "kinds": (literal(asset.kind),),
            "peers": (literal(self.peer),),
            "max_bytes": asset.size_bytes,
            "max_elements": asset.elements,
            "count": 10,
            "until": _end_of_day(self._inbox.policies.now()),
        }
        try:
            return Policy("approve", **fields | changes)
        except TypeError:
            unknown = ", ".join(changes)
            raise SettingError(f"a policy has no such field: one of {unknown}") from None

    def __repr__(self) -> str:
        asset = self._incoming.asset
        return (
            f"<Request {self.number} ({self.state}): {visible(self.peer)} asks for {visible(asset.name)!r}, "
            f"{size_text(asset.size_bytes)}; reason: {visible(self.reason) or 'none given'}>"
        )

    def _repr_html_(self) -> str:
        return RequestTable([self])._repr_html_()


def _end_of_day(now: datetime.datetime) -> datetime.datetime:
    # by the calendar: a day may have 23 or 25 hours
    tomorrow = datetime.datetime.combine(now.date() + datetime.timedelta(days=1), datetime.time())
    return tomorrow.astimezone()


class RequestTable(Sequence[Request]):
    """The queue as of now; index by the number that the table shows."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self._requests = requests

    @property
    def pending(self) -> list[Request]:
        """Those without an answer, oldest first."""
        return [request for request in self._requests if request.state == "pending"]

    def __len__(self) -> int:
        return len(self._requests)

    @overload
    def __getitem__(self, index: int) -> Request: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Request]: ...
    def __getitem__(self, index: int | slice) -> Request | Sequence[Request]:
        if isinstance(index, int) and not -len(self) <= index < len(self):
            raise IndexError(f"there is no request {index}; {len(self)} have arrived so far")
        return self._requests[index]

    def __iter__(self) -> Iterator[Request]:
        return iter(self._requests)

    def table(self) -> Table:
        rows = [
            (
                str(request.number),
                request.state,
                request.peer,
                request.asset.name,
                f"{request.asset.kind} {request.asset.detail}, {size_text(request.asset.size_bytes)}",
                request.reason,
                request.by,
                request.answer_reason,
                request.arrived.astimezone().strftime("%H:%M:%S"),
            )
            for request in self._requests
        ]
        headers = ("#", "state", "who", "object", "what would leave", "reason", "by", "answer", "when")
        return Table("Requests", headers, rows, "no request has arrived")

    def __repr__(self) -> str:
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()
