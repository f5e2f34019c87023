"""All that a state holds, read from its records and checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

import msgspec

from duetlink.duet.answering.incoming import Incoming
from duetlink.duet.answering.policies.policy import Policy
from duetlink.duet.answering.policies.usage import Usage
from duetlink.duet.answering.queue import HISTORY
from duetlink.duet.answering.states import PENDING
from duetlink.duet.objects.kept_asset import KeptAsset
from duetlink.duet.state import records
from duetlink.duet.state.asset_record import asset_from_json
from duetlink.duet.state.policy_record import policy_from_json, usage_from_json
from duetlink.duet.state.records import ASSET, GRANT, ORDER, POLICY, REQUEST, Key
from duetlink.duet.state.request_record import request_from_json

Grant = tuple[str, str, int]  # peer, name, revision
T = TypeVar("T")


class _PolicyRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    policy: Any
    usage: Any


@dataclass(slots=True)
class Contents:
    """The contents of a state, as an earlier kernel left them. Requests are ordered by number."""

    assets: dict[str, KeptAsset] = field(default_factory=dict)
    policies: tuple[Policy, ...] = ()
    usage: dict[str, Usage] = field(default_factory=dict)
    requests: list[Incoming] = field(default_factory=list)
    to_run: frozenset[int] = frozenset()  # numbers of pending requests that have a job
    grants: dict[Grant, int] = field(default_factory=dict)  # by which request it was given

    @classmethod
    def parse(cls, found: Mapping[Key, str]) -> Self:
        """Read all records. Raises ValueError if a record is malformed or they do not fit together."""
        kinds: dict[str, dict[Key, Any]] = {kind: {} for kind in (ASSET, POLICY, ORDER, REQUEST, GRANT)}
        for key, text in found.items():
            if key[0] not in kinds:
                raise ValueError(f"it has a record of an unknown kind, {key[0][:40]!r}")
            with _about(key):
                kinds[key[0]][key] = records.load(text)
        contents = cls()
        for key, asset in _read(kinds[ASSET], asset_from_json):
            _check(key, records.key(ASSET, asset.info.name))
            contents.assets[asset.info.name] = asset
        contents._parse_policies(kinds[POLICY], kinds[ORDER])
        to_run = []
        for key, (request, of_asset) in _read(kinds[REQUEST], request_from_json):
            _check(key, records.key(REQUEST, request.number))
            contents.requests.append(request)
            if request.state == PENDING and not of_asset:
                to_run.append(request.number)
        contents.requests.sort(key=lambda request: request.number)
        contents.to_run = frozenset(to_run)
        contents._parse_grants(kinds[GRANT])
        return contents

    def _parse_policies(self, policies: Mapping[Key, Any], order: Mapping[Key, Any]) -> None:
        named = {}
        for key, (policy, usage) in _read(policies, _policy):
            _check(key, records.key(POLICY, policy.name))
            named[policy.name] = policy
            self.usage[policy.name] = usage
        names = [name for _, listed in _read(order, _names) for name in listed]
        if sorted(names) != sorted(named):
            raise ValueError("its list of policies does not match its policy records")
        self.policies = tuple(named[name] for name in names)

    def _parse_grants(self, grants: Mapping[Key, Any]) -> None:
        numbers = {request.number for request in self.requests}
        for key, number in _read(grants, _number):
            with _about(key):
                peer, name, revision = msgspec.convert(records.load(key[1]), tuple[str, str, int])
                if number not in numbers:
                    raise ValueError(f"its request {number} is missing")
                self.grants[peer, name, revision] = number

    def outdated(self) -> list[Incoming]:
        """Return the requests that need not be kept: answered long ago, and without a grant."""
        if not self.requests:
            return []
        first, granted = self.requests[-1].number - HISTORY + 1, set(self.grants.values())
        return [
            request
            for request in self.requests
            if request.number < first and request.state != PENDING and request.number not in granted
        ]


@contextmanager
def _about(key: Key) -> Iterator[None]:
    """Name the record in a ValueError that the block raises."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"its record {key[0]} {key[1][:100]} cannot be read: {error}") from None


def _read(found: Mapping[Key, Any], read: Callable[[object], T]) -> Iterator[tuple[Key, T]]:
    for key, record in found.items():
        with _about(key):
            value = read(record)
        yield key, value


def _check(key: Key, right: Key) -> None:
    if key != right:
        raise ValueError(f"its record {key[0]} {key[1][:100]} does not match its key")


def _policy(record: object) -> tuple[Policy, Usage]:
    found = msgspec.convert(record, _PolicyRecord)
    return policy_from_json(found.policy), usage_from_json(found.usage)


def _names(record: object) -> list[str]:
    return msgspec.convert(record, list[str])


def _number(record: object) -> int:
    return msgspec.convert(record, int)
