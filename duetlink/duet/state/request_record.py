"""The JSON record of a request: who asked for what and why, and the answer. Its askers are not kept."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from duetlink.base.wire.json_ import Whole
from duetlink.duet.answering.incoming import Incoming
from duetlink.duet.answering.states import PENDING
from duetlink.duet.state.asset_record import InfoRecord, info_to_json
from duetlink.duet.state.policy_record import moment, plain

# fields of an `Incoming` that are kept under their names
_ALIKE = ("number", "reason", "state", "by", "answer_reason", "times")
_MOMENTS = ("arrived", "expires", "answered")


class _Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The record of an `Incoming`, without its askers."""

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
    # a job's result is not kept; the job runs again
    job = request.job if request.state == PENDING else None
    return {
        **{name: plain(getattr(request, name)) for name in (*_ALIKE, *_MOMENTS)},
        "asset": info_to_json(request.asset if job is None else job.info),
        "peer": request.peer_name,
        "of_asset": is_of_asset(request),
    }


def request_from_json(record: object) -> tuple[Incoming, bool]:
    """Return the request, without askers, and True if it is for an asset. Raises ValueError."""
    found = msgspec.convert(record, _Request)
    fields: dict[str, Any] = {name: getattr(found, name) for name in _ALIKE}
    for name in _MOMENTS:
        text = getattr(found, name)
        fields[name] = None if text is None else moment(text)
    return Incoming(asset=found.asset.info(), content=None, peer_name=found.peer, **fields), found.of_asset


def is_of_asset(request: Incoming) -> bool:
    """Return True if the request is for an asset itself, whose content exists again when it is
    shared again.
    """
    return request.asset.lineage is None
