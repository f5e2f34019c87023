"""Sends values from one member to one other, at the same time as the collective operations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from duetlink.errors import DuetError, LimitExceeded
from duetlink.groups.collectives.execution.engine import Engine
from duetlink.groups.collectives.execution.messages import Moved
from duetlink.groups.collectives.values.operands import checked_rank
from duetlink.groups.collectives.values.trees import Tree, from_bytes, take_apart, to_bytes


@dataclass(frozen=True, slots=True)
class Received:
    """A value that one member has sent to this one."""

    value: object
    rank: int
    tag: int


class PointToPoint:
    """The messages of one epoch as values. Belongs to the loop thread."""

    def __init__(self, engine: Engine, limit_bytes: int) -> None:
        """Values larger than `limit_bytes` are not received."""
        self._engine = engine
        self.limit_bytes = limit_bytes

    async def send(self, value: object, to: int, tag: int = 0, *, moved: Moved | None = None) -> None:
        """Send a value to one member. A large one waits until it is received there.

        `moved` is called with the bytes of a large value that have been sent, and its size.

        Raises:
            PeerLost: that member is gone.
            OperationMismatch: that member refused it.
        """
        to = checked_rank(to, self._engine.size, but=self._engine.rank)
        tree = take_apart(value)
        await self._engine.messages.send(to, tag, tree.to_wire(), to_bytes(tree).data, moved)

    async def recv(self, of: int | None = None, tag: int = 0, *, moved: Moved | None = None) -> Received:
        """Wait for the next value with that tag from that member, or from any. `moved` is as for `send`.

        Raises:
            PeerLost: that member is gone.
            RemoteProtocolError: the message is not a value, or it is too large.
        """
        if of is not None:
            of = checked_rank(of, self._engine.size, but=self._engine.rank)
        received = await self._engine.messages.receive(of, tag)
        try:
            form = Tree.from_wire(received.form, self.limit_bytes)
            if sum(leaf.size_bytes for leaf in form.leaves) != received.size_bytes:
                raise LimitExceeded(f"a message of {received.size_bytes} bytes for {form.what}")
        except DuetError:
            await self._engine.messages.refuse(received)
            raise
        data = np.empty(received.size_bytes, np.uint8)
        await self._engine.messages.accept(received, data.data, moved)
        return Received(form.with_items(from_bytes(form, data)), received.of, tag)
