"""What has to come back after a restart, as those who change it see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from duetlink.duet.answering.incoming import Incoming
from duetlink.duet.answering.policies.policy import Policy
from duetlink.duet.answering.policies.usage import Usage
from duetlink.duet.objects.asset import AssetInfo
from duetlink.duet.objects.kept_asset import AssetPersistence


class Persistence(AssetPersistence):
    """That of a duet that was launched without `resume`: nothing comes back.

    Methods belong to the loop thread. They note how things stand now, and return at once; whoever must not go
    on before that is on the disk awaits `written`.
    """

    name = ""  # of the state; empty: nothing is kept
    ledger: Path | None = None  # where the budgets of private statistics are kept, beside the rest

    @property
    def failure(self) -> str:
        """Why the last write failed, in words; empty: it did not."""
        return ""

    def retired(self, info: AssetInfo) -> None:
        """What was granted of a revision holds no longer."""

    def policies(self, policies: Sequence[Policy], usage: Mapping[str, Usage]) -> None:
        """These are in force, in this order."""

    def charged(self, policy: Policy, usage: Usage) -> None:
        """A policy has let out so much by now."""

    def request(self, request: Incoming) -> None:
        """It has come, or is in another state."""

    def forgotten(self, request: Incoming) -> None:
        """It was answered long ago, and need not come back."""

    def keep_work(self, request: Incoming, pieces: Sequence[bytes | bytearray | memoryview]) -> None:
        """A request that waits needs these bytes, one behind the other, to be run after a restart: they are
        on the disk before its record is, and with it once `written` returns. Leave the pieces as they are.

        Raises:
            ValueRefused: those that wait take up too much already.
        """

    def work(self, request: Incoming) -> bytes | None:
        """What `keep_work` was given for it, by this kernel or the one before; None where there is nothing,
        or it is not as it was written. Blocks, and may be called on any thread.
        """

    def drop_work(self, request: Incoming) -> None:
        """It has ended, and needs it no longer."""

    def granted(self, request: Incoming) -> None:
        """A person lets this peer have this revision, now and when it asks again."""

    def taken_back(self, request: Incoming) -> None:
        """That did not come about."""

    async def close(self) -> None:
        """Write what waits and let the next kernel have it."""
