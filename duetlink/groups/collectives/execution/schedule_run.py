"""One operation run through its schedule by messages; `shared.py` runs it through shared memory.

Theory. A round needs no tasks of its own: it sends, then receives what has arrived. A large array runs
through the schedule in parts, a few at a time (`layout.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NoReturn, Protocol

import numpy as np

from duetlink.base.runtime.off_loop import off_loop
from duetlink.errors import OperationMismatch, RemoteProtocolError, UnknownCodec
from duetlink.groups.collectives.execution.elements import Array
from duetlink.groups.collectives.execution.frame import Piece
from duetlink.groups.collectives.execution.names import Names
from duetlink.groups.collectives.execution.spare_memory import Backup
from duetlink.groups.collectives.execution.work import Work
from duetlink.groups.collectives.schedules.schedule import BlockUse, Receive, ScheduleRound, SendBlock
from duetlink.groups.links.transport import Message, Transport

# Parts in flight at once: while one is added, others are sent and received.
_PARTS = 4
# Larger pieces are encoded on a thread. Lower than the default of `off_loop`: many codecs do only 100 MB/s.
_CODEC_BYTES = 32 * 1024


class ScheduleRunner(Protocol):
    """The methods and fields of the engine that a run uses."""

    transport: Transport
    completed: int  # the number of the operation that runs
    done_bytes: int
    sent_bytes: int
    names: Names

    async def take(self, of: int, part: int) -> Message: ...


class ScheduleRun:
    """The run of one operation at one member. Belongs to the loop thread."""

    def __init__(self, engine: ScheduleRunner, work: Work) -> None:
        self._engine = engine
        self._work = work
        self._introduced: set[int] = set()  # the ranks that have been sent the call's text
        self._encodes = True  # until a piece has not become smaller

    async def run(self, backup: Backup | None) -> None:
        """Keep all items of `taken` in the backup, then send and receive what the schedule says."""
        work = self._work
        if backup is not None:
            await off_loop(work.taken.nbytes, backup.keep, len(work.taken))
        parts = max(work.given_layout.parts, work.taken_layout.parts)
        if parts == 1:
            await self._run_part(0)
            return
        await self.run_parts(range(parts), work.taken.nbytes // parts)

    async def run_parts(self, parts: Sequence[int], part_bytes: int = 0) -> None:
        """Run some parts of the array, a few at a time; each counts as `part_bytes` of progress."""
        todo = iter(parts)

        async def run_some() -> None:
            for part in todo:
                await self._run_part(part)
                self._engine.done_bytes += part_bytes

        tasks = [asyncio.ensure_future(run_some()) for _ in range(min(_PARTS, len(parts)))]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _run_part(self, part: int) -> None:
        for round_ in self._work.schedule.rounds:
            await self._send_all(part, round_)
            for receive in round_.receives:
                await self._receive(part, receive)

    async def _send_all(self, part: int, round_: ScheduleRound) -> None:
        if len(round_.sends) < 2:
            for send in round_.sends:
                await self._send(part, send)
            return
        sends = [asyncio.ensure_future(self._send(part, send)) for send in round_.sends]
        try:
            await asyncio.gather(*sends)
        finally:
            for sending in sends:
                sending.cancel()
            await asyncio.gather(*sends, return_exceptions=True)

    async def _send(self, part: int, send: SendBlock) -> None:
        work, engine = self._work, self._engine
        for start, stop in work.given_layout.pieces(part, send.blocks):
            body = await self._body(work.given[start:stop])
            call = ""
            if send.to not in self._introduced:  # checked here, since another part may be encoded earlier
                self._introduced.add(send.to)
                call = work.operation.text
            head = Piece(engine.completed, part, work.operation.digest, call).to_wire()
            await engine.transport.send(send.to, head, body)
            engine.sent_bytes += body.nbytes

    async def _body(self, piece: Array) -> memoryview:
        """Return the bytes to send for a piece: encoded if that is smaller, otherwise its own memory."""
        encoding = self._work.encoding
        if encoding is not None and self._encodes and piece.nbytes:
            encoded = await off_loop(piece.nbytes, encoding.encode, piece, least_bytes=_CODEC_BYTES)
            if encoded is not None:
                return memoryview(encoded)
            self._encodes = False
        return piece.view(np.uint8).data

    async def _receive(self, part: int, receive: Receive) -> None:
        work = self._work
        for start, stop in work.taken_layout.pieces(part, receive.blocks):
            message = await self._engine.take(receive.of, part)
            mine = work.taken[start:stop]
            theirs = await self._decoded(receive.of, message.body, mine)
            if receive.how is BlockUse.REPLACE:
                mine[...] = theirs
                continue
            assert work.combine is not None
            left, right = (theirs, mine) if receive.how is BlockUse.LEFT else (mine, theirs)
            await off_loop(mine.nbytes, work.combine, left, right, mine)

    async def _decoded(self, of: int, body: memoryview, mine: Array) -> Array:
        """Decode a received body into an array of the form of `mine`."""
        if len(body) == mine.nbytes:
            return np.frombuffer(body, mine.dtype)
        encoding = self._work.encoding
        if encoding is None:
            self._wrong_size(of, len(body), mine.nbytes)
        try:
            found: Array = await off_loop(
                mine.nbytes, encoding.decode, body, mine.nbytes, least_bytes=_CODEC_BYTES
            )
        except (RemoteProtocolError, UnknownCodec) as error:
            raise RemoteProtocolError(f"{self._engine.names[of]}: {error}") from None
        return found

    def _wrong_size(self, of: int, found: int, expected: int) -> NoReturn:
        operation = self._work.operation
        name = self._engine.names[of]
        text = f"{name} sent {found} bytes in {operation.text}, where {expected} were expected"
        if operation.kind == "all_to_all":  # the only one whose digest does not cover the sizes
            raise OperationMismatch(f"{text}; the sizes that two members give for each other must be equal")
        raise RemoteProtocolError(text)
