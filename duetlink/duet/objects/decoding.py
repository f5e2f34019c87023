"""Decodes values that the peer made and that this side has not asked for: gifts, results of its programs and
functions, and, at an owner, the mocks of what it shares.

A flat value (`data/values/flat.py`) is decoded in this process at once. Any other value is first decoded and
used in a room of its own. A malicious body that crashes or blocks its reader then only ends that room, which
has seen no other value. If the room survives, the same bytes are decoded in this process.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

from duetlink.base.runtime import descriptors
from duetlink.compute.worker.kernel.process import Room
from duetlink.compute.worker.protocol.limits import Limits
from duetlink.compute.worker.protocol.memory import place
from duetlink.data import values
from duetlink.errors import LimitExceeded, MalformedValue, ValueRefused, WorkerUnavailable, WorkLimit

_TIMEOUT_S = 20.0
_TIMEOUT_S_PER_BYTE = 1 / 10e6  # ten times the time of the slowest library
_ROOM_BYTES = 1 << 30


class Decoding:
    """Tries values in a room before this process decodes them. Methods run on the loop thread."""

    def __init__(self, memory_bytes: int) -> None:
        """`memory_bytes` is how much memory a room may use in addition to a value and its libraries."""
        self._limits = Limits(memory_bytes=memory_bytes, threads=1)
        self._room: Room | None = None  # the room of the trial that runs
        self._is_closed = False
        self.tried = 0  # number of trials that succeeded
        self._turn = asyncio.Lock()

    async def decode(self, body: memoryview, room: values.DecodeBudget) -> object:
        """Decode `body` on another thread, after a trial in a room if it is not flat. Arrays that arrived
        encoded draw on the budget `room`.

        Raises:
            MalformedValue, LimitExceeded, MissingLibrary: as `values.decode`.
            ValueRefused: it has to be tried first, and no room can be started here.
        """
        left_bytes = room.left_bytes
        try:
            return await asyncio.to_thread(values.decode, body, room=room, only_flat=True)
        except values.NotFlat:
            room.left_bytes = left_bytes
        async with self._turn:
            await self._try(body, left_bytes)
        return await asyncio.to_thread(values.decode, body, room=room)

    async def check(self, body: memoryview, room_bytes: int) -> None:
        """Return when `body` may be decoded in this process, with its encoded arrays within `room_bytes`.
        Raises as `decode`.
        """
        try:
            await asyncio.to_thread(values.decode, body, room=values.DecodeBudget(room_bytes), only_flat=True)
        except values.NotFlat:
            async with self._turn:
                await self._try(body, room_bytes)

    def for_threads(self) -> Callable[[bytes], object]:
        """Return a blocking `decode(body)` for any thread except the loop's. It raises as `decode`."""
        loop = asyncio.get_running_loop()

        def decode(body: bytes) -> object:
            decoding = self.decode(memoryview(body), values.DecodeBudget(_ROOM_BYTES))
            try:
                future = asyncio.run_coroutine_threadsafe(decoding, loop)
            except RuntimeError:
                decoding.close()
                raise ValueRefused("the value was not decoded, because this duet is closed") from None
            return future.result()

        return decode

    async def close(self) -> None:
        """End the trial that runs. It and all later ones raise ValueRefused."""
        self._is_closed = True
        if self._room is not None:
            self._room.kill("this duet is closed")
        async with self._turn:
            pass

    async def _try(self, body: memoryview, room_bytes: int) -> None:
        """Return after a room has decoded and used the body without ending."""
        needed = await asyncio.to_thread(values.libraries, body)
        asked = json.dumps({"size_bytes": len(body), "room_bytes": room_bytes}).encode()
        timeout_s = _TIMEOUT_S + len(body) * _TIMEOUT_S_PER_BYTE
        room = await self._started(needed)
        try:
            self._raise_closed()
            async with descriptors.opened_by(lambda: place([body], len(body))) as fd:
                await room.call("decode", asked, [fd], timeout_s=timeout_s, lasting=True)
            self.tried += 1
        except WorkLimit as error:
            self._raise_closed()
            raise LimitExceeded(f"decoding it exceeded a limit of the receiving side ({error})") from None
        except WorkerUnavailable as error:
            self._raise_closed()
            raise MalformedValue(f"the process that decoded it has ended ({error})") from None
        finally:
            self._room = None
            await room.close()

    async def _started(self, needed: frozenset[str]) -> Room:
        """Start a room with these libraries, as far as they are installed."""
        self._raise_closed()
        try:
            self._room = await Room.start(self._limits, handler="decode", libraries=sorted(needed))
        except WorkerUnavailable as error:
            raise ValueRefused(
                f"a value of {', '.join(sorted(needed))} is decoded in a process of its own first, and the "
                f"receiver can start none ({error}); send arrays, or share() it, so that the peer can "
                "request it"
            ) from None
        return self._room

    def _raise_closed(self) -> None:
        if self._is_closed:
            raise ValueRefused("the value was not decoded, because this duet is closed")
