"""What a set of policies would have done with the requests that came."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import overload

from duetlink.duet.answering.incoming import Incoming
from duetlink.duet.answering.policies.decision import Decision, decide
from duetlink.duet.answering.policies.facts import Facts
from duetlink.duet.answering.policies.policy import APPROVE, Policy
from duetlink.duet.answering.policies.usage import Usage
from duetlink.duet.display import Table


@dataclass(frozen=True, slots=True)
class Replayed:
    """One request: what the policies would have answered, and what was answered, by whom."""

    number: int
    name: str
    peer: str
    decision: Decision
    state: str
    by: str


class Replay(Sequence[Replayed]):
    """Every request of a duet, by number."""

    def __init__(self, replayed: Sequence[Replayed]) -> None:
        self._replayed = replayed

    def __len__(self) -> int:
        return len(self._replayed)

    @overload
    def __getitem__(self, index: int) -> Replayed: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Replayed]: ...
    def __getitem__(self, index: int | slice) -> Replayed | Sequence[Replayed]:
        return self._replayed[index]

    def __iter__(self) -> Iterator[Replayed]:
        return iter(self._replayed)

    def table(self) -> Table:
        rows = [
            (str(one.number), one.peer, one.name, one.decision.action, one.decision.by, one.state, one.by)
            for one in self._replayed
        ]
        headers = ("#", "who", "object", "would be", "by", "was", "by")
        return Table("Policies, replayed", headers, rows, "no request has arrived")

    def __repr__(self) -> str:
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def replay(policies: Sequence[Policy], asked: Sequence[Incoming], zone: datetime.tzinfo | None) -> Replay:
    """Decide each request when it came, one after the other, counting what would have been let out."""
    usage: Mapping[str, Usage] = {policy.name: Usage() for policy in policies}
    replayed = []
    for request in asked:
        facts, moment = Facts.of(request.asset, request.peer_name), request.arrived.astimezone(zone)
        decision = decide(policies, facts, usage, moment)
        if decision.action == APPROVE and decision.policy is not None:
            usage[decision.policy.name].charge(decision.policy, facts, moment)
        replayed.append(Replayed(request.number, facts.name, facts.peer, decision, request.state, request.by))
    return Replay(replayed)
