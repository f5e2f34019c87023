"""`duet.policies`: the policies of a duet as a person adds, inspects and tries them."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, overload

from duetlink.base.audit import entry
from duetlink.base.audit.entry import Entry
from duetlink.base.runtime.loop import LoopThread
from duetlink.duet.answering.inbox import Inbox
from duetlink.duet.answering.policies.decision import Decision
from duetlink.duet.answering.policies.facts import Facts
from duetlink.duet.answering.policies.policy import Policy
from duetlink.duet.answering.policies.replay import Replay, replay
from duetlink.duet.display import Displayed, Table
from duetlink.errors import SettingError

if TYPE_CHECKING:
    from duetlink.duet.answering.requests import Request


class Policies(Sequence[Policy], Displayed):
    """The policies of this duet, in the order in which they are tried. The first that matches a request
    answers it; if none does, the request waits for the person. What a person has granted stays granted.

    A policy approves one revision at a time: when the peer asks again, the policies decide again.
    """

    def __init__(self, inbox: Inbox, thread: LoopThread) -> None:
        self._inbox = inbox
        self._book = inbox.policies
        self._thread = thread

    # -- change ----------------------------------------------------------------------------------------------

    def add(self, policy: Policy, at: int | None = None, *, expires_s: float | None = None) -> Policy:
        """Add `policy` after the others, or at index `at` (0: first), and let the policies answer pending
        requests.

        Returns the policy with its name. A policy that is already in the list is not added twice and keeps
        its usage, so that running a cell twice does not double its quota. `expires_s` ends the policy that
        many seconds from now.

        Raises:
            SettingError: a different policy has its name, or it already has an end.
            AuditUnavailable: it could not be recorded; it is not in force.
        """
        if not isinstance(policy, Policy):
            raise SettingError(f"add() takes a Policy, got {type(policy).__name__}")
        return self._thread.run(self._add(policy, at, expires_s))

    async def _add(self, policy: Policy, at: int | None, expires_s: float | None) -> Policy:
        async with self._book.changing:
            named = self._book.name(_ending(policy, expires_s, self._book.now()))
            await self._put_in_force(named, at, "added" if at is None else f"added at place {at}")
        self._inbox.changed()
        await self._inbox.examine()
        return named

    def move(self, name: str, at: int) -> None:
        """Move a policy to index `at`. Raises UnknownPolicy, AuditUnavailable."""

        async def move() -> None:
            async with self._book.changing:
                policy = self._book.find(name)
                await self._put_in_force(policy, at, f"moved to place {at}")
            self._inbox.changed()

        self._thread.run(move())

    def remove(self, name: str) -> None:
        """Remove a policy. What it has released has left already.

        Raises:
            UnknownPolicy: there is no such policy.
            StateUnavailable: it is no longer in force, but `launch(resume=…)` would bring it back.
        """

        async def remove() -> None:
            self._remove(self._book.find(name))
            await self._book.keep()

        self._thread.run(remove())

    def clear(self) -> None:
        """Remove all policies, so that a person answers every request. Raises StateUnavailable as
        `remove`.
        """

        async def clear() -> None:
            for policy in self._book.policies:
                self._remove(policy)
            await self._book.keep()

        self._thread.run(clear())

    def _remove(self, policy: Policy) -> None:
        self._book.remove(policy.name)
        self._inbox.recorder.note(_entry(policy, "removed"))
        self._inbox.changed()

    def apply(self) -> None:
        """Let the policies answer pending requests again, for example because time has passed."""
        self._thread.run(self._inbox.examine())

    async def _put_in_force(self, policy: Policy, at: int | None, state: str) -> None:
        recorder = self._inbox.recorder
        await recorder.record(_entry(policy, state))
        try:
            await self._book.keep_added(policy, at)
        except BaseException:
            recorder.note(_entry(policy, "as before: it could not be kept"))
            raise

    # -- try without effect ----------------------------------------------------------------------------------

    def explain(self, request: Request) -> Decision:
        """Return what the policies would answer if the request came now, and why. Nothing is answered or
        charged.
        """

        return self._book.decide(Facts.of(request.asset, request._incoming.peer_name))

    def replay(self) -> Replay:
        """Return what these policies would have answered to each request of this duet, in the order and at
        the time of its arrival. Nothing is answered or charged. A request counts once, however often it was
        asked.
        """

        return replay(self._book.policies, list(self._inbox.requests), self._book.now().tzinfo)

    # -- read ------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._book.policies)

    @overload
    def __getitem__(self, index: int | str) -> Policy: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Policy]: ...
    def __getitem__(self, index: int | str | slice) -> Policy | Sequence[Policy]:
        """Return a policy by index or by name. Raises IndexError, UnknownPolicy."""
        if isinstance(index, str):
            return self._book.find(index)
        return self._book.policies[index]

    def __iter__(self) -> Iterator[Policy]:
        return iter(self._book.policies)

    def usage(self, name: str) -> str:
        """Return what the policy of that name has released, in words; "" for nothing yet."""
        usage = self._book.usage.get(name)
        return usage.words() if usage else ""

    def table(self) -> Table:
        rows = [
            (str(place), policy.name, policy.action, policy.words(), self.usage(policy.name))
            for place, policy in enumerate(self._book.policies)
        ]
        headers = ("#", "name", "action", "which requests, how much", "has let out")
        return Table("Policies", headers, rows, "none: you answer every request")


def _ending(policy: Policy, expires_s: float | None, now: datetime.datetime) -> Policy:
    if expires_s is None:
        return policy
    if policy.until is not None:
        raise SettingError(
            "the policy already has an end, until={policy.until}; leave out one of until and expires_s"
        )
    try:
        return dataclasses.replace(policy, until=now + datetime.timedelta(seconds=expires_s))
    except (TypeError, OverflowError, ValueError):
        raise SettingError(f"expires_s is a number of seconds, got {expires_s!r}") from None


def _entry(policy: Policy, state: str) -> Entry:
    return Entry(
        kind=entry.POLICY, name=policy.name, state=state, reason=f"{policy.action}: {policy.words()}"
    )
