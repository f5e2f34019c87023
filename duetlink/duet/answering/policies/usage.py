"""The usage of a policy: how much it has released."""

from __future__ import annotations

import datetime
from collections import deque
from dataclasses import dataclass, field

from duetlink.base.quantities import count_text
from duetlink.duet.answering.policies.facts import Facts
from duetlink.duet.answering.policies.policy import Policy


@dataclass(slots=True)
class Usage:
    """Counts of one policy. They go up when a release is approved, before anything leaves."""

    count: int = 0
    size_bytes: int = 0
    elements: int = 0
    # for `rate`: the latest approvals, at most `rate[0]`
    moments: deque[datetime.datetime] = field(default_factory=deque)

    def charge(self, policy: Policy, facts: Facts, now: datetime.datetime) -> None:
        """Count one release."""
        self._add(1, facts)
        if policy.rate is not None:
            self.moments.append(now)
            if len(self.moments) > policy.rate[0]:  # the oldest one no longer matters
                self.moments.popleft()

    def charge_back(self, policy: Policy, facts: Facts, now: datetime.datetime) -> None:
        """Undo the release that was charged at `now`."""
        self._add(-1, facts)
        if policy.rate is not None and now in self.moments:
            self.moments.remove(now)

    def _add(self, count: int, facts: Facts) -> None:
        self.count += count
        self.size_bytes += count * facts.size_bytes
        self.elements += count * (facts.elements or 0)

    def words(self) -> str:
        """Return the usage as text, `3 times, 24 elements`; empty if nothing was released."""
        if not self.count:
            return ""
        return f"{count_text(self.count, 'time')}, {count_text(self.elements, 'element')}"
