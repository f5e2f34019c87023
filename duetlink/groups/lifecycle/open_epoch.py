"""The epoch that a member is in: its streams to the other members, and the `Collectives` over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from duetlink.errors import DuetError, GroupOver, LinkClosed, RemoteProtocolError
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.collectives.planning.costs import LinkFigures
from duetlink.groups.lifecycle.farewell import MOST_ENDED
from duetlink.groups.lifecycle.figures import measured
from duetlink.groups.links.mesh import Mesh
from duetlink.groups.membership.messages import Epoch
from duetlink.net.link.link import Link


class OpenEpoch:
    """One epoch in which operations can run, from construction until `close`. Used on the loop thread."""

    def __init__(
        self,
        epoch: Epoch,
        rank: int,
        links: Sequence[Link | None],
        names: Sequence[str],
        on_violation: Callable[[int, RemoteProtocolError], None],
    ) -> None:
        """`links` and `names` are by rank; the link is None for this member, and for one whose link is lost.

        `on_violation` is called with the rank of a member that breaks the protocol.
        """
        self.number = epoch.number
        self.members = frozenset(epoch.members)  # seats
        streams = [link.streams if link is not None else None for link in links]
        self.mesh = Mesh(epoch.number, rank, streams, on_violation)
        found = {rank: link for rank, link in enumerate(links) if link is not None}

        async def figures() -> dict[int, LinkFigures]:
            return await measured(found)

        may_share = all(link.allows_local for link in found.values())
        self.collectives = Collectives(self.mesh, names=names, figures=figures, may_share=may_share)

    @property
    def ended(self) -> int:
        """The number of operations that have ended here; `MOST_ENDED` if no operation can end any more."""
        return self.collectives.completed if self.collectives.broken is None else MOST_ENDED

    @property
    def needs_new_epoch(self) -> bool:
        """True if an operation failed and left messages in flight, although no member is lost."""
        broken = self.collectives.broken
        return broken is not None and not isinstance(broken, LinkClosed | GroupOver)

    def fail(self, error: DuetError) -> None:
        """End the epoch: the running operation and every later call raise this error."""
        self.mesh.fail(error)

    async def close(self) -> None:
        """Free everything. Safe to call twice."""
        await self.collectives.close()
        await self.mesh.close()
