"""Loop side of the policies: their order, what each has let out, and the decisions made from both.

Other threads read `policies` and `usage`; only the loop thread writes. What decides and charges has no await
in between, so that two requests at once do not spend the same quota.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from duetlink.base.events import PolicyDecided, Sink, Word
from duetlink.duet.answering.persistence import Persistence
from duetlink.duet.answering.policies.decision import Decision, decide
from duetlink.duet.answering.policies.facts import Facts
from duetlink.duet.answering.policies.policy import Policy
from duetlink.duet.answering.policies.usage import Usage
from duetlink.errors import SettingError, UnknownPolicy


def local_now() -> datetime.datetime:
    """With the time zone of this machine, whose hours count."""
    return datetime.datetime.now().astimezone()


@dataclass(frozen=True, slots=True)
class Charging:
    """What one release, or one run, has cost a policy."""

    policy: Policy
    usage: Usage  # of the policy, which may have been removed since
    facts: Facts
    moment: datetime.datetime
    kept: Callable[[Policy, Usage], None]

    def charge(self) -> None:
        self.usage.charge(self.policy, self.facts, self.moment)
        self.kept(self.policy, self.usage)

    def take_back(self) -> None:
        self.usage.charge_back(self.policy, self.facts, self.moment)
        self.kept(self.policy, self.usage)


class PolicyBook:
    """The policies of one duet, in the order in which they are looked at."""

    def __init__(
        self, persistence: Persistence, sink: Sink, now: Callable[[], datetime.datetime] = local_now
    ) -> None:
        self._persistence = persistence
        self._sink = sink
        self.now = now
        self.policies: tuple[Policy, ...] = ()
        self.usage: dict[str, Usage] = {}
        self.changing = asyncio.Lock()  # by a person: a change is kept before it is in force

    def resume(self, policies: Sequence[Policy], usage: dict[str, Usage]) -> None:
        """Go on with those of an earlier kernel."""
        self.policies, self.usage = tuple(policies), usage

    def find(self, name: str) -> Policy:
        """Raises UnknownPolicy."""
        for policy in self.policies:
            if policy.name == name:
                return policy
        known = ", ".join(repr(policy.name) for policy in self.policies[:10]) or "none"
        raise UnknownPolicy(f"there is no policy {name!r}; there is {known}")

    def name(self, policy: Policy) -> Policy:
        """`policy` under a name that can be added. One that is there already may be added once more.

        Raises:
            SettingError: another one has that name.
        """
        names = {known.name for known in self.policies}
        if not policy.name:
            for known in self.policies:
                if dataclasses.replace(known, name="") == policy:
                    return known
            free = next(name for name in map(str, range(1, len(names) + 2)) if name not in names)
            return dataclasses.replace(policy, name=free)
        if policy.name in names and self.find(policy.name) != policy:
            raise SettingError(
                f"there is another policy {policy.name!r}; remove it first, or choose another name"
            )
        return policy

    def add(self, policy: Policy, at: int | None = None) -> None:
        """Put it at the end, or at place `at`. One that is there keeps what it has let out."""
        self.policies = self._placed(policy, at)
        self.usage.setdefault(policy.name, Usage())

    def _placed(self, policy: Policy, at: int | None) -> tuple[Policy, ...]:
        others = [known for known in self.policies if known.name != policy.name]
        if len(others) < len(self.policies) and at is None:
            return self.policies
        others.insert(len(others) if at is None else at, policy)
        return tuple(others)

    async def keep_added(self, policy: Policy, at: int | None = None) -> None:
        """As `add`, when it is kept. Raises StateUnavailable: it is not in force."""
        self._persistence.policies(self._placed(policy, at), self.usage)
        try:
            await self._persistence.written()
        except BaseException:
            self._persistence.policies(self.policies, self.usage)
            raise
        self.add(policy, at)

    async def keep(self) -> None:
        """Return when those that are in force now are what is kept. Raises StateUnavailable."""
        async with self.changing:
            self._persistence.policies(self.policies, self.usage)
            await self._persistence.written()

    def remove(self, name: str) -> None:
        """Raises UnknownPolicy."""
        gone = self.find(name)
        self.policies = tuple(policy for policy in self.policies if policy is not gone)
        del self.usage[name]

    def decide(self, facts: Facts) -> Decision:
        """What would be answered now. Nothing is counted."""
        decision = decide(self.policies, facts, self.usage, self.now())
        place = None if decision.policy is None else len(decision.verdicts) - 1
        self._sink.emit(PolicyDecided(Word(decision.action), place))
        return decision

    @asynccontextmanager
    async def charged(self, decision: Decision, facts: Facts) -> AsyncIterator[None]:
        """Count what `decision` approves, before anything is awaited; take it back where the block fails. The
        block begins when that is kept: what was let out before a crash is never let out once more.

        Raises:
            StateUnavailable: it cannot be kept.
        """
        charging = self.charge(decision, facts)
        try:
            await self._persistence.written()
            yield
        except BaseException:
            charging.take_back()
            raise

    def charge(self, decision: Decision, facts: Facts) -> Charging:
        """Count what `decision` approves at once; returns what can be taken back."""
        policy = decision.policy
        assert policy is not None
        charging = Charging(policy, self.usage[policy.name], facts, self.now(), self._keep_usage)
        charging.charge()
        return charging

    def _keep_usage(self, policy: Policy, usage: Usage) -> None:
        if self.usage.get(policy.name) is usage:  # not removed meanwhile
            self._persistence.charged(policy, usage)
