"""The JSON records of a policy and its usage. Fields with default values are not written, so that a later
version may have more fields.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections import deque
from typing import Any

import msgspec

from duetlink.base.wire.json_ import Whole
from duetlink.duet.answering.policies.policy import Policy
from duetlink.duet.answering.policies.usage import Usage
from duetlink.errors import SettingError


class _Used(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The record of a `Usage`."""

    count: Whole
    size_bytes: Whole
    elements: Whole
    moments: tuple[str, ...]


def policy_to_json(policy: Policy) -> dict[str, Any]:
    return {
        field.name: plain(value)
        for field in dataclasses.fields(policy)
        if (value := getattr(policy, field.name)) != field.default
    }


def policy_from_json(record: object) -> Policy:
    """Read a policy that this version wrote. Raises ValueError for anything else."""
    fields = dict(msgspec.convert(record, dict[str, Any]))
    if unknown := fields.keys() - {field.name for field in dataclasses.fields(Policy)}:
        raise ValueError(f"it has unknown fields: {', '.join(sorted(unknown))[:200]}")
    for name in fields.keys() & {"after", "until"}:
        fields[name] = moment(msgspec.convert(fields[name], str))
    if "hours" in fields:
        hours = msgspec.convert(fields["hours"], tuple[str, str])
        fields["hours"] = tuple(map(datetime.time.fromisoformat, hours))
    try:
        return msgspec.convert(fields, Policy)
    except SettingError as error:
        raise ValueError(str(error)) from None


def usage_to_json(usage: Usage) -> dict[str, Any]:
    return {
        "count": usage.count,
        "size_bytes": usage.size_bytes,
        "elements": usage.elements,
        "moments": [moment.isoformat() for moment in usage.moments],
    }


def usage_from_json(record: object) -> Usage:
    """Read a record. Raises ValueError."""
    found = msgspec.convert(record, _Used)
    return Usage(found.count, found.size_bytes, found.elements, deque(map(moment, found.moments)))


def moment(text: str) -> datetime.datetime:
    """Read a time with time zone, in the format of `isoformat`. Raises ValueError."""
    found = datetime.datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError("a moment without a time zone")
    return found


def plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return value.isoformat() if isinstance(value, datetime.datetime | datetime.time) else value
