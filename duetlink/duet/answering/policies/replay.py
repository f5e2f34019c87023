"""The decisions that a set of policies would have made about past requests."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from duetlink.duet.answering.incoming import Incoming
from duetlink.duet.answering.policies.decision import Decision, decide
from duetlink.duet.answering.policies.facts import Facts
from duetlink.duet.answering.policies.policy import APPROVE, Policy
from duetlink.duet.answering.policies.usage import Usage
from duetlink.duet.display import Listing, Table


@dataclass(frozen=True, slots=True)
class Replayed:
    """One past request: the decision that the policies would have made, and the actual answer and who gave
    it.
    """

    number: int
    name: str
    peer: str
    decision: Decision
    state: str
    by: str


class Replay(Listing[Replayed]):
    """The replayed requests of a duet, by number."""

    def table(self) -> Table:
        rows = [
            (str(one.number), one.peer, one.name, one.decision.action, one.decision.by, one.state, one.by)
            for one in self
        ]
        headers = ("#", "who", "object", "would be", "by", "was", "by")
        return Table("Policies, replayed", headers, rows, "no request has arrived")


def replay(policies: Sequence[Policy], asked: Sequence[Incoming], zone: datetime.tzinfo | None) -> Replay:
    """Decide each request as of its arrival, in order, counting what would have been released."""
    usage: Mapping[str, Usage] = {policy.name: Usage() for policy in policies}
    replayed = []
    for request in asked:
        facts, moment = Facts.of(request.asset, request.peer_name), request.arrived.astimezone(zone)
        decision = decide(policies, facts, usage, moment)
        if decision.action == APPROVE and decision.policy is not None:
            usage[decision.policy.name].charge(decision.policy, facts, moment)
        replayed.append(Replayed(request.number, facts.name, facts.peer, decision, request.state, request.by))
    return Replay(replayed)
