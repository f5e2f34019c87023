"""A request of the peer's, as JSON: who asked for what, why, and what was answered. Not who waits for it."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from duetlink.base.wire import json_
from duetlink.base.wire.json_ import Whole
from duetlink.duet.answering.incoming import Incoming
from duetlink.duet.answering.states import PENDING
from duetlink.duet.state.asset_record import InfoRecord, info_to_json
from duetlink.duet.state.policy_record import moment


class _Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An `Incoming`, without those who wait for it."""

    number: Whole
    asset: InfoRecord
    peer: str
    reason: str
    arrived: str
    expires: str | None
    state: Literal["pending", "approved", "denied", "withdrawn", "expired", "failed"]
    by: str
    answer_reason: str
    answered: str | None
    times: Whole
    of_asset: bool


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
    found = json_.convert(record, _Request)
    request = Incoming(
        number=found.number,
        asset=found.asset.info(),
        content=None,
        peer_name=found.peer,
        reason=found.reason,
        arrived=moment(found.arrived),
        expires=None if found.expires is None else moment(found.expires),
        state=found.state,
        by=found.by,
        answer_reason=found.answer_reason,
        answered=None if found.answered is None else moment(found.answered),
        times=found.times,
    )
    return request, found.of_asset


def is_of_asset(request: Incoming) -> bool:
    """Whether it is for what is shared, as it is: what it is for is there again when that is shared again."""
    return request.asset.lineage is None
