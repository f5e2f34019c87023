"""Decoding what a peer has made and nobody here has asked for: gifts, and what its steps and functions gave.

A flat value (`data/values/flat.py`) is decoded here and now. Any other is first decoded, and used, in a
process of its own, shut in and limited like the worker: a body that ends or occupies the process that reads
it ends that one. Only what it survives is decoded in this process, from the same bytes.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable

from duetlink.compute.worker.limits import Limits
from duetlink.compute.worker.memory import place
from duetlink.compute.worker.process import Worker
from duetlink.data import values
from duetlink.errors import LimitExceeded, MalformedValue, ValueRefused, WorkerUnavailable, WorkLimit

IDLE_S = 300.0  # how long a process waits for the next value: to load its libraries takes seconds
_TIMEOUT_S = 20.0
_TIMEOUT_S_PER_BYTE = 1 / 10e6  # slower than the slowest library by a factor of ten
_ROOM_BYTES = 1 << 30
# The memory that was given to a process for good is allowed to it for good.
_MOST_GIVEN_BYTES = 4 << 30


class Decoding:
    """Where values are tried. Methods belong to the loop thread."""

    def __init__(self, memory_bytes: int) -> None:
        """`memory_bytes`: what a process may take beside a value and its libraries."""
        self._limits = Limits(memory_bytes=memory_bytes, threads=1)
        self._worker: Worker | None = None
        self._libraries: frozenset[str] = frozenset()
        self._given_bytes = 0
        self._retired = False
        self._turn = asyncio.Lock()
        self._idle: asyncio.TimerHandle | None = None

    async def decode(self, body: memoryview, room: values.Room) -> object:
        """The value in `body`, made away from the loop. Arrays that came encoded take `room`.

        Raises:
            MalformedValue, LimitExceeded, MissingLibrary: as `values.decode`.
            ValueRefused: it has to be tried first, and no process for that can be started here.
        """
        left_bytes = room.left_bytes
        try:
            return await asyncio.to_thread(values.decode, body, room=room, only_flat=True)
        except values.NotFlat:
            room.left_bytes = left_bytes
        async with self._turn:
            await self._try(body, left_bytes)
        return await asyncio.to_thread(values.decode, body, room=room)

    def for_threads(self) -> Callable[[bytes], object]:
        """What decodes a body like `decode`, from any thread but the loop's, and raises the same."""
        loop = asyncio.get_running_loop()

        def decode(body: bytes) -> object:
            decoding = self.decode(memoryview(body), values.Room(_ROOM_BYTES))
            try:
                future = asyncio.run_coroutine_threadsafe(decoding, loop)
            except RuntimeError:
                decoding.close()
                raise ValueRefused("it is not decoded any more: this duet is closed") from None
            return future.result()

        return decode

    async def close(self) -> None:
        """End the process, and what is tried in it."""
        self._retire()
        async with self._turn:
            await self._end()

    async def _try(self, body: memoryview, room_bytes: int) -> None:
        """Return when a process has survived to decode and use this."""
        needed = await asyncio.to_thread(values.libraries, body)
        worker = await self._ready(needed)
        asked = json.dumps({"size_bytes": len(body), "room_bytes": room_bytes}).encode()
        timeout_s = _TIMEOUT_S + len(body) * _TIMEOUT_S_PER_BYTE
        try:
            fd = await asyncio.to_thread(place, [body], len(body))
            self._given_bytes += len(body)
            try:
                await worker.call("decode", asked, [fd], timeout_s=timeout_s, lasting=True)
            finally:
                os.close(fd)
        except WorkLimit as error:
            self._retire()
            raise LimitExceeded(f"to decode it took more than this side allows ({error})") from None
        except WorkerUnavailable as error:
            self._retire()
            raise MalformedValue(f"the process in which it was decoded has ended ({error})") from None
        self._idle = asyncio.get_running_loop().call_later(IDLE_S, self._retire)

    def _retire(self) -> None:
        """End the process; the next value has another."""
        self._retired = True
        if self._worker is not None:
            self._worker.kill("it is not needed any more")

    async def _ready(self, needed: frozenset[str]) -> Worker:
        """A process that has these libraries, as far as they are installed."""
        if self._idle is not None:
            self._idle.cancel()
        worker = self._worker
        if worker is not None and not (
            self._retired
            or worker.ended.done()  # on its own, since the last value
            or self._given_bytes >= _MOST_GIVEN_BYTES
            or not needed <= self._libraries
        ):
            return worker
        await self._end()
        libraries = needed | self._libraries
        try:
            self._worker = await Worker.start(self._limits, desk="decode", libraries=sorted(libraries))
        except WorkerUnavailable as error:
            raise ValueRefused(
                f"a value of {', '.join(sorted(needed))} is decoded in a process of its own first, and the "
                f"receiver can start none ({error}); send arrays, or share() it, to be asked for"
            ) from None
        self._libraries, self._given_bytes, self._retired = libraries, 0, False
        return self._worker

    async def _end(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        if self._worker is not None:
            await self._worker.close()
        self._worker = None
