"""A path through a directory that both sides have, such as that of a cluster.

What lies there is sealed under a key that only the ticket has, which goes over the control channel.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from pathlib import Path as File
from typing import ClassVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from duetlink.base.wire import schema_pb2 as pb
from duetlink.errors import PathUnavailable, TicketRefused, TransferFailed
from duetlink.net.flight.body import Outgoing, ReceiveBuffer
from duetlink.net.flight.sending import Order
from duetlink.net.paths.base import Path, PathContext

KEY_BYTES = 16
NAME_BYTES = 16
NONCE = bytes(12)  # each key seals once
CHUNK_BYTES = 1024 * 1024


class FolderPath(Path):
    """Bodies as files in the directory that MEASURES_FOLDER names."""

    name: ClassVar[str] = "folder"
    measurable: ClassVar[bool] = False

    def __init__(self, context: PathContext) -> None:
        super().__init__(context)
        self._folder = File(os.environ.get("MEASURES_FOLDER", "/nonexistent"))
        self._files: dict[bytes, File] = {}  # by the number of a transfer

    async def open(self) -> None:
        if not self._folder.is_dir():
            raise PathUnavailable(f"there is no directory {self._folder}")

    async def offer(self, transfer_id: bytes, outgoing: Outgoing, order: Order) -> pb.Ticket:
        key, name = secrets.token_bytes(KEY_BYTES), secrets.token_bytes(NAME_BYTES)
        self.release(transfer_id)
        file = self._files[transfer_id] = self._folder / name.hex()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._context.reading, _write, file, key, outgoing, order)
        return pb.Ticket(path=self.name, flight=key + name)

    async def fetch(self, ticket: pb.Ticket, receive_buffer: ReceiveBuffer) -> None:
        key, name = ticket.flight[:KEY_BYTES], ticket.flight[KEY_BYTES:]
        if ticket.WhichOneof("way") != "flight" or len(name) != NAME_BYTES:
            raise TransferFailed("the peer's ticket for path folder is of another kind")
        loop = asyncio.get_running_loop()
        file = self._folder / name.hex()
        reading = loop.run_in_executor(self._context.waiting, _read, file, key, receive_buffer)
        try:
            await asyncio.shield(reading)
        except asyncio.CancelledError:
            receive_buffer.stop()
            with contextlib.suppress(Exception):
                await reading
            raise

    def release(self, transfer_id: bytes) -> None:
        if (file := self._files.pop(transfer_id, None)) is not None:
            file.unlink(missing_ok=True)

    async def close(self) -> None:
        for transfer_id in list(self._files):
            self.release(transfer_id)


def _write(file: File, key: bytes, outgoing: Outgoing, order: Order) -> None:
    for leaf in range(outgoing.leaves):
        outgoing.verify_leaf(leaf)
    body = b"".join(piece for start, end in order.ranges for piece in outgoing.pieces(start, end))
    file.write_bytes(AESGCM(key).encrypt(NONCE, body, None))


def _read(file: File, key: bytes, receive_buffer: ReceiveBuffer) -> None:
    try:
        body = memoryview(AESGCM(key).decrypt(NONCE, file.read_bytes(), None))
    except FileNotFoundError:
        raise TicketRefused("what the ticket is for is not there any more") from None
    except InvalidTag:
        raise TransferFailed("somebody else has written to the directory") from None
    for start in range(0, len(body), CHUNK_BYTES):
        if receive_buffer.stopped:
            return
        receive_buffer.write(body[start : start + CHUNK_BYTES])
