"""A policy, and what it has let out, as JSON. Fields that say nothing are not written, so that a later
version may have more of them.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections import deque
from collections.abc import Callable
from typing import Any

from duetlink.duet.answering.policies.policy import Policy
from duetlink.duet.answering.policies.usage import Usage
from duetlink.duet.state.fields import Fields, moment, texts
from duetlink.errors import SettingError


def policy_to_json(policy: Policy) -> dict[str, Any]:
    """What `policy_from_json` makes an equal policy of."""
    return {
        field.name: _plain(value)
        for field in dataclasses.fields(policy)
        if (value := getattr(policy, field.name)) != field.default
    }


def policy_from_json(record: object) -> Policy:
    """Raises ValueError for what is not as `policy_to_json` writes this version's policies."""
    fields = Fields(record)
    values: dict[str, Any] = {}
    for field in dataclasses.fields(Policy):
        if isinstance(record, dict) and field.name in record:
            values[field.name] = _READ.get(field.name, _scalar)(field.name, fields.inner(field.name))
    fields.end()
    if type(values.get("action")) is not str:
        raise ValueError("its action is missing")
    try:
        return Policy(values.pop("action"), **values)
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
    """Raises ValueError."""
    fields = Fields(record)
    usage = Usage(
        fields.whole("count"),
        fields.whole("size_bytes"),
        fields.whole("elements"),
        deque(map(moment, fields.texts("moments"))),
    )
    fields.end()
    return usage


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value.isoformat() if isinstance(value, datetime.datetime | datetime.time) else value


def _scalar(name: str, value: Any) -> Any:
    if type(value) not in (str, int, bool):
        raise ValueError(f"{name} is a {type(value).__name__}")
    return value


def _several(name: str, value: Any) -> tuple[str, ...]:
    return tuple(texts(name, _listed(name, value)))


def _moment(name: str, value: Any) -> datetime.datetime:
    if type(value) is not str:
        raise ValueError(f"{name} is a {type(value).__name__}")
    return moment(value)


def _rate(name: str, value: Any) -> tuple[Any, ...]:
    rate = _listed(name, value)
    if [type(part) for part in rate] != [int, float]:
        raise ValueError(f"{name} is no number of times in seconds")
    return tuple(rate)


def _hours(name: str, value: Any) -> tuple[datetime.time, ...]:
    return tuple(datetime.time.fromisoformat(hour) for hour in texts(name, _listed(name, value)))


def _listed(name: str, value: Any) -> list[Any]:
    if type(value) is not list:
        raise ValueError(f"{name} is a {type(value).__name__}")
    return value


# all others are texts, whole numbers or flags, and `Policy` itself checks which
_READ: dict[str, Callable[[str, Any], Any]] = {
    "after": _moment,
    "until": _moment,
    "rate": _rate,
    "hours": _hours,
    **dict.fromkeys(("assets", "tags", "kinds", "operations", "lineage", "code", "prep", "peers"), _several),
}
