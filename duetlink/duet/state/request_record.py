"""A request of the peer's, as JSON: who asked for what, why, and what was answered. Not who waits for it."""

from __future__ import annotations

from typing import Any

from duetlink.duet.answering.incoming import Incoming
from duetlink.duet.answering.states import APPROVED, DENIED, EXPIRED, FAILED, PENDING, WITHDRAWN
from duetlink.duet.state.asset_record import info_from_json, info_to_json
from duetlink.duet.state.fields import Fields

_STATES = (PENDING, APPROVED, DENIED, WITHDRAWN, EXPIRED, FAILED)


def request_to_json(request: Incoming) -> dict[str, Any]:
    # what has been made of a job is not kept, and is made again
    is_unmade = request.job is not None and request.state == PENDING
    return {
        "number": request.number,
        "asset": info_to_json(request.job.info if request.job is not None and is_unmade else request.asset),
        "peer": request.peer_name,
        "reason": request.reason,
        "arrived": request.arrived.isoformat(),
        "expires": None if request.expires is None else request.expires.isoformat(),
        "state": request.state,
        "by": request.by,
        "answer_reason": request.answer_reason,
        "answered": None if request.answered is None else request.answered.isoformat(),
        "times": request.times,
        "of_asset": is_of_asset(request),
    }


def request_from_json(record: object) -> tuple[Incoming, bool]:
    """The request, that nobody waits for, and whether it is for an asset. Raises ValueError."""
    fields = Fields(record)
    request = Incoming(
        number=fields.whole("number"),
        asset=info_from_json(fields.inner("asset")),
        content=None,
        peer_name=fields.text("peer"),
        reason=fields.text("reason"),
        arrived=fields.moment("arrived"),
        expires=fields.moment_or_none("expires"),
        state=fields.text("state"),
        by=fields.text("by"),
        answer_reason=fields.text("answer_reason"),
        answered=fields.moment_or_none("answered"),
        times=fields.whole("times"),
    )
    of_asset = fields.flag("of_asset")
    fields.end()
    if request.state not in _STATES:
        raise ValueError(f"no request is {request.state[:40]!r}")
    return request, of_asset


def is_of_asset(request: Incoming) -> bool:
    """Whether it is for what is shared, as it is: what it is for is there again when that is shared again."""
    return request.asset.lineage is None
