"""The configuration that both sides share, and how a change of it takes effect on both or on neither.

One side decides the order: the link's initiator. It gives each change the next version, tells the other side
and applies it when that has; the other side asks it for a change. Changes of different fields add up; of two
to the same field the later in the initiator's order stands, on both sides.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from duetlink.base.wire import json_
from duetlink.base.wire import schema_pb2 as pb
from duetlink.data.tuning import Compression
from duetlink.errors import CallTimeout, RemoteProtocolError, SettingError, ValueRefused
from duetlink.net.peer.rpc import Rpc

_UNDO = 50  # changes that can be taken back


@dataclass(frozen=True, slots=True)
class Change:
    """What one change made of the configuration, and which side asked for it."""

    before: Compression
    after: Compression
    by_peer: bool
    when_s: float  # Unix time at which it took effect here


class Agreement:
    """This side's copy. Methods belong to the loop thread; `compression` may be read on any."""

    def __init__(
        self,
        rpc: Rpc,
        available: frozenset[str],
        apply: Callable[[Compression], None],
        *,
        initiator: bool,
    ) -> None:
        """`available`: names of the codecs that both sides have. `apply` puts a change into effect here."""
        self.compression = Compression()
        self.available = available
        self._put_into_effect = apply
        self._rpc = rpc
        self._initiator = initiator
        self._order = asyncio.Lock()
        self._deciding: set[asyncio.Future[None]] = set()
        self._before: deque[Compression] = deque(maxlen=_UNDO)
        self.latest: Change | None = None
        self._asking: list[Mapping[str, Any]] = []  # changes of this side that the initiator has not answered
        if initiator:
            rpc.handle(pb.CompressionChange, self._asked)
        else:
            rpc.handle(pb.Compression, self._told)
            rpc.notice(pb.Compression, lambda message: self._hear(message.content))

    async def change(self, fields: Mapping[str, Any]) -> None:
        """Return when `fields` have their new values on both sides.

        Raises:
            SettingError: a value cannot be used, or the peer lacks that codec; nothing has changed.
            LinkClosed, CallTimeout: nothing has changed.
        """
        if "version" in fields:
            raise SettingError("version counts the changes of duet.compression, and cannot be set")
        # as JSON knows them: what `compression.codec` gave is a read-only view
        fields = {name: dict(of) if isinstance(of, Mapping) else of for name, of in fields.items()}
        self.compression.changed(**fields).validate(self.available)  # here, where the message is for the user
        if self._initiator:
            await self._decide(fields, by_peer=False)
            return
        self._asking.append(fields)
        try:
            await self._rpc.call(pb.CompressionChange(fields=json_.dump(fields)), pb.Done)
        finally:
            self._asking.remove(fields)

    async def undo(self) -> None:
        """Take back the last change, whoever made it; raises SettingError if there is none."""
        if not self._before:
            raise SettingError("there is no change of duet.compression to take back")
        before = self._before[-1]
        fields = before.to_wire()
        del fields["version"]
        await self.change(fields)
        # the change itself, and what it took back
        for _ in range(2):
            if self._before:
                self._before.pop()

    async def _decide(self, fields: Mapping[str, Any], *, by_peer: bool) -> None:
        """Not to be cut short by whoever waits for it: the other side would have what this one has not."""
        deciding = asyncio.ensure_future(self._settle(fields, by_peer=by_peer))
        self._deciding.add(deciding)
        deciding.add_done_callback(self._deciding.discard)
        await asyncio.shield(deciding)

    async def _settle(self, fields: Mapping[str, Any], *, by_peer: bool) -> None:
        async with self._order:
            changed = self.compression.changed(**fields, version=self.compression.version + 1)
            changed.validate(self.available)
            try:
                await self._rpc.call(pb.Compression(content=json_.dump(changed.to_wire())), pb.Done)
            except CallTimeout:  # it may have it, or get it later: what stands is said once more
                self.compression = self.compression.changed(version=changed.version + 1)
                self._rpc.tell_nowait(pb.Compression(content=json_.dump(self.compression.to_wire())))
                raise
            self._apply(changed, by_peer=by_peer)

    async def _asked(self, change: pb.CompressionChange) -> pb.Done:
        fields = json_.load(change.fields, "change of compression")
        if not isinstance(fields, dict) or "version" in fields:
            raise RemoteProtocolError("the peer's change of compression names no fields")
        try:
            await self._decide(fields, by_peer=True)
        except SettingError as error:
            raise ValueRefused(str(error)) from None
        return pb.Done()

    async def _told(self, message: pb.Compression) -> pb.Done:
        self._hear(message.content)
        return pb.Done()

    def _hear(self, content: bytes) -> None:
        """Apply what the initiator says. A change is this side's own if it is what this side asks for."""
        told = self._parse(content)
        own = any(self.compression.changed(**fields, version=told.version) == told for fields in self._asking)
        self._apply(told, by_peer=not own)

    def _parse(self, content: bytes) -> Compression:
        try:
            compression = Compression.from_wire(json_.load(content, "configuration"))
            compression.validate(self.available)
        except SettingError as error:
            raise RemoteProtocolError(f"the peer's configuration of compression: {error}") from None
        return compression

    def _apply(self, compression: Compression, *, by_peer: bool) -> None:
        if compression.version > self.compression.version:
            # after a time-out the initiator repeats what stands, which changes nothing
            if dataclasses.replace(compression, version=self.compression.version) != self.compression:
                self.latest = Change(self.compression, compression, by_peer, time.time())
            self._before.append(self.compression)
            self.compression = compression
            self._put_into_effect(compression)
