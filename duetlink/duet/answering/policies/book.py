"""The loop thread's list of policies, with their usage, and the decisions made from both.

Other threads read `policies` and `usage`; only the loop thread writes them. Nothing is awaited between a
decision and its charge, so that two requests at the same moment cannot spend the same quota.
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
    """Return the time with this machine's time zone, which `Policy.hours` refers to."""
    return datetime.datetime.now().astimezone()


@dataclass(frozen=True, slots=True)
class Charging:
    """The charge of one release or one run, which can be undone."""

    policy: Policy
    usage: Usage  # the usage of a policy that may have been removed since
    facts: Facts
    moment: datetime.datetime
    kept: Callable[[Policy, Usage], None]

    def charge(self) -> None:
        self.usage.charge(self.policy, self.facts, self.moment)
        self.kept(self.policy, self.usage)

    def undo(self) -> None:
        self.usage.charge_back(self.policy, self.facts, self.moment)
        self.kept(self.policy, self.usage)


class PolicyBook:
    """The policies of one duet, in the order in which they are tried."""

    def __init__(
        self, persistence: Persistence, sink: Sink, now: Callable[[], datetime.datetime] = local_now
    ) -> None:
        self._persistence = persistence
        self._sink = sink
        self.now = now
        self.policies: tuple[Policy, ...] = ()
        self.usage: dict[str, Usage] = {}
        self.changing = asyncio.Lock()  # one change by a person at a time: it is saved before it is in force

    def resume(self, policies: Sequence[Policy], usage: dict[str, Usage]) -> None:
        """Load the policies and usage of an earlier kernel."""
        self.policies, self.usage = tuple(policies), usage

    def find(self, name: str) -> Policy:
        """Return the policy of this name. Raises UnknownPolicy."""
        for policy in self.policies:
            if policy.name == name:
                return policy
        known = ", ".join(repr(policy.name) for policy in self.policies[:10]) or "none"
        raise UnknownPolicy(f"there is no policy {name!r}; there is {known}")

    def name(self, policy: Policy) -> Policy:
        """Return `policy` with a name under which it can be added. An equal policy may be added again under
        its name.

        Raises:
            SettingError: a different policy has that name.
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
        """Put the policy at the end, or at index `at`. A policy that is already in the list keeps
        its usage.
        """
        self.policies = self._placed(policy, at)
        self.usage.setdefault(policy.name, Usage())

    def _placed(self, policy: Policy, at: int | None) -> tuple[Policy, ...]:
        others = [known for known in self.policies if known.name != policy.name]
        if len(others) < len(self.policies) and at is None:
            return self.policies
        others.insert(len(others) if at is None else at, policy)
        return tuple(others)

    async def keep_added(self, policy: Policy, at: int | None = None) -> None:
        """Save the list with this policy, then add it. Raises StateUnavailable: the policy is not
        in force.
        """
        self._persistence.policies(self._placed(policy, at), self.usage)
        try:
            await self._persistence.written()
        except BaseException:
            self._persistence.policies(self.policies, self.usage)
            raise
        self.add(policy, at)

    async def keep(self) -> None:
        """Save the list as it is; return when it is on the disk. Raises StateUnavailable."""
        async with self.changing:
            self._persistence.policies(self.policies, self.usage)
            await self._persistence.written()

    def remove(self, name: str) -> None:
        """Remove the policy and its usage. Raises UnknownPolicy."""
        gone = self.find(name)
        self.policies = tuple(policy for policy in self.policies if policy is not gone)
        del self.usage[name]

    def decide(self, facts: Facts) -> Decision:
        """Return what the policies would answer now. No usage is counted."""
        decision = decide(self.policies, facts, self.usage, self.now())
        place = None if decision.policy is None else len(decision.verdicts) - 1
        self._sink.emit(PolicyDecided(Word(decision.action), place))
        return decision

    @asynccontextmanager
    async def charged(self, decision: Decision, facts: Facts) -> AsyncIterator[None]:
        """Charge what `decision` approves, before anything is awaited; undo the charge if the block raises.
        The block begins after the charge is saved, so that a crash cannot release the same quota twice.

        Raises:
            StateUnavailable: it cannot be saved.
        """
        charging = self.charge(decision, facts)
        try:
            await self._persistence.written()
            yield
        except BaseException:
            charging.undo()
            raise

    def charge(self, decision: Decision, facts: Facts) -> Charging:
        """Charge what `decision` approves at once; return the charge, which can be undone."""
        policy = decision.policy
        assert policy is not None
        charging = Charging(policy, self.usage[policy.name], facts, self.now(), self._keep_usage)
        charging.charge()
        return charging

    def _keep_usage(self, policy: Policy, usage: Usage) -> None:
        if self.usage.get(policy.name) is usage:  # not removed meanwhile
            self._persistence.charged(policy, usage)
