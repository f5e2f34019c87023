"""Who is told of what has to come back after a restart. This one keeps nothing: without `resume` there is no
other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duetlink.duet.asset import AssetInfo, Content
    from duetlink.duet.catalogue import Catalogue
    from duetlink.duet.inbox import Inbox
    from duetlink.duet.incoming import Incoming
    from duetlink.duet.policies.policy import Policy
    from duetlink.duet.policies.usage import Usage


class Keeper:
    """Methods belong to the loop thread. They put down how things stand now, and return at once; whoever must
    not go on before that is on the disk awaits `written`.
    """

    name = ""  # of the state; empty: nothing is kept
    ledger: Path | None = None  # where the budgets of private statistics are kept, beside the rest

    @property
    def failure(self) -> str:
        """Of the last write, in words."""
        return ""

    def restore(self, catalogue: Catalogue, inbox: Inbox) -> None:
        """Put everything back where it was, and be told from now on."""

    async def shared(self, info: AssetInfo, content: Content) -> None:
        """An asset is to be offered. Raises StateUnavailable: it must not be."""

    def unshared(self, info: AssetInfo) -> None:
        """A revision is offered no longer."""

    def retired(self, info: AssetInfo) -> None:
        """What was granted of a revision holds no longer."""

    def policies(self, policies: Sequence[Policy], usage: Mapping[str, Usage]) -> None:
        """These are in force, in this order."""

    def charged(self, policy: Policy, usage: Usage) -> None:
        """A policy has let out so much by now."""

    def request(self, request: Incoming) -> None:
        """It has come, or is in another state."""

    def granted(self, request: Incoming) -> None:
        """A person lets this peer have this revision, now and when it asks again."""

    def taken_back(self, request: Incoming) -> None:
        """That did not come about."""

    async def written(self, *, sync: bool = True) -> None:
        """Return when all of it is written, with `sync` on the disk. Raises StateUnavailable."""

    async def close(self) -> None:
        """Write what waits and let the next kernel have it."""
