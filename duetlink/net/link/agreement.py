"""The compression settings that both sides share. A change takes effect on both sides, or on neither.

The link's initiator decides the order. It gives each change the next version number, sends it to the other
side, and applies it when that side has confirmed. The other side sends its changes to the initiator as
requests. Changes of different fields are merged. If two changes set the same field, the one that the
initiator orders later wins on both sides.
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

_UNDO = 50  # changes that can be undone


@dataclass(frozen=True, slots=True)
class Change:
    """The settings before and after one change, and which side asked for it."""

    before: Compression
    after: Compression
    by_peer: bool
    when_s: float  # Unix time at which it took effect here


class Agreement:
    """This side's copy of the settings.

    Methods belong to the loop thread; any thread may read `compression`.
    """

    def __init__(
        self,
        rpc: Rpc,
        available: frozenset[str],
        apply: Callable[[Compression], None],
        *,
        initiator: bool,
    ) -> None:
        """`available`: names of the codecs that both sides have.

        `apply` puts a change into effect on this side.
        """
        self.compression = Compression()
        self.available = available
        self._put_into_effect = apply
        self._rpc = rpc
        self._initiator = initiator
        self._order = asyncio.Lock()
        self._deciding: set[asyncio.Future[None]] = set()
        self._before: deque[Compression] = deque(maxlen=_UNDO)
        self.latest: Change | None = None
        # changes that this side has requested and the initiator has not answered
        self._requested: list[Mapping[str, Any]] = []
        if initiator:
            rpc.handle(pb.CompressionChange, self._on_change_request)
        else:
            rpc.handle(pb.Compression, self._on_settings)
            rpc.notice(pb.Compression, lambda message: self._apply_received(message.content))

    async def change(self, fields: Mapping[str, Any]) -> None:
        """Change `fields` on both sides; return when both use the new values.

        Raises:
            SettingError: a value cannot be used, or the peer lacks that codec; nothing has changed.
            LinkClosed, CallTimeout: nothing has changed.
        """
        if "version" in fields:
            raise SettingError(
                "version counts the changes of duet.compression and cannot be set; leave it out"
            )
        # plain dicts for JSON: `compression.codec` returns a read-only view
        fields = {name: dict(of) if isinstance(of, Mapping) else of for name, of in fields.items()}
        self.compression.changed(**fields).validate(
            self.available
        )  # checked here, so that the user sees the error
        if self._initiator:
            await self._decide(fields, by_peer=False)
            return
        self._requested.append(fields)
        try:
            await self._rpc.call(pb.CompressionChange(fields=json_.dump(fields)), pb.Done)
        finally:
            self._requested.remove(fields)

    async def undo(self) -> None:
        """Undo the last change, whichever side made it. Raises SettingError if there is none."""
        if not self._before:
            raise SettingError("there is no change of duet.compression to undo")
        before = self._before[-1]
        fields = before.to_wire()
        del fields["version"]
        await self.change(fields)
        # forget both the undone change and the change that undid it
        for _ in range(2):
            if self._before:
                self._before.pop()

    async def _decide(self, fields: Mapping[str, Any], *, by_peer: bool) -> None:
        """Make one change, as the initiator.

        Shielded from cancellation: a half-applied change would leave the two sides with different settings.
        """
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
            except (
                CallTimeout
            ):  # the peer may still apply it: send the valid settings again, with a newer version
                self.compression = self.compression.changed(version=changed.version + 1)
                self._rpc.tell_nowait(pb.Compression(content=json_.dump(self.compression.to_wire())))
                raise
            self._apply(changed, by_peer=by_peer)

    async def _on_change_request(self, change: pb.CompressionChange) -> pb.Done:
        fields = json_.load(change.fields, "change of compression")
        if not isinstance(fields, dict) or "version" in fields:
            raise RemoteProtocolError("the peer's change of compression names no fields")
        try:
            await self._decide(fields, by_peer=True)
        except SettingError as error:
            raise ValueRefused(str(error)) from None
        return pb.Done()

    async def _on_settings(self, message: pb.Compression) -> pb.Done:
        self._apply_received(message.content)
        return pb.Done()

    def _apply_received(self, content: bytes) -> None:
        """Apply settings that the initiator sent.

        They count as this side's own change if this side asked for them.
        """
        received = self._parse(content)
        own = any(
            self.compression.changed(**fields, version=received.version) == received
            for fields in self._requested
        )
        self._apply(received, by_peer=not own)

    def _parse(self, content: bytes) -> Compression:
        try:
            compression = Compression.from_wire(json_.load(content, "configuration"))
            compression.validate(self.available)
        except SettingError as error:
            raise RemoteProtocolError(f"the peer's configuration of compression: {error}") from None
        return compression

    def _apply(self, compression: Compression, *, by_peer: bool) -> None:
        if compression.version > self.compression.version:
            # after a time-out the initiator sends the valid settings again, which changes nothing here
            if dataclasses.replace(compression, version=self.compression.version) != self.compression:
                self.latest = Change(self.compression, compression, by_peer, time.time())
            self._before.append(self.compression)
            self.compression = compression
            self._put_into_effect(compression)
