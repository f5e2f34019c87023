"""The interface by which the answering side saves what has to survive a restart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from duetlink.duet.answering.incoming import Incoming
from duetlink.duet.answering.policies.policy import Policy
from duetlink.duet.answering.policies.usage import Usage
from duetlink.duet.objects.asset import AssetInfo
from duetlink.duet.objects.kept_asset import AssetPersistence


class Persistence(AssetPersistence):
    """Saves nothing: the implementation for a duet that was launched without `resume`. `duetlink/duet/state/`
    has the one that writes to disk.

    All methods run on the loop thread. They record the new value and return at once; to continue only after
    it is on the disk, await `written`.
    """

    name = ""  # the name of the state; empty: nothing is saved
    ledger: Path | None = None  # the file of budgets of private statistics; None: that of the settings

    @property
    def failure(self) -> str:
        """The error text of the last write; empty if it succeeded."""
        return ""

    def retired(self, info: AssetInfo) -> None:
        """Remove the grants for a revision that is no longer shared."""

    def policies(self, policies: Sequence[Policy], usage: Mapping[str, Usage]) -> None:
        """Save the policies that are in force, in their order."""

    def charged(self, policy: Policy, usage: Usage) -> None:
        """Save how much a policy has released by now."""

    def request(self, request: Incoming) -> None:
        """Save a request that is new or has changed its state."""

    def forgotten(self, request: Incoming) -> None:
        """Remove a request that was answered long ago."""

    def keep_work(self, request: Incoming, pieces: Sequence[bytes | bytearray | memoryview]) -> None:
        """Save the bytes from which the job of a waiting request can be run after a restart: the
        concatenation of `pieces`. They are written before the record of the request, and are on the disk when
        `written` returns. The caller must not change the pieces.

        Raises:
            ValueRefused: the jobs that wait take up too much space already.
        """

    def work(self, request: Incoming) -> bytes | None:
        """Return the bytes that `keep_work` got for this request, in this kernel or the one before; None if
        there are none or they are damaged. Blocks; any thread may call it.
        """

    def drop_work(self, request: Incoming) -> None:
        """Remove the saved job of a request that has ended."""

    def granted(self, request: Incoming) -> None:
        """Save that a person has granted this revision to this peer."""

    def grant_undone(self, request: Incoming) -> None:
        """Remove the grant that was just recorded, because the answer did not go out."""

    async def close(self) -> None:
        """Write what is pending, and release the state for the next kernel."""
