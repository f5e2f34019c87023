"""One member of a group in a process of its own: RANK SIZE DESCRIPTORS, one socket for each other member.

It agrees, sums what it is asked to, and is killed or told to end by closing its sockets.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import sys

import numpy as np

from duetlink.errors import PeerLost
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.links.transport import Message

_LENGTHS = struct.Struct("<IQ")
ITEMS = 3_000_000  # several chunks
SUMS = 2


class SocketTransport:
    """Messages over one connected socket for each other member. One that ends is a member lost."""

    def __init__(self, rank: int, sockets: dict[int, socket.socket]) -> None:
        self.rank = rank
        self.size = len(sockets) + 1
        self.sent_bytes = 0
        self._sockets = sockets
        self._locks = {other: asyncio.Lock() for other in sockets}
        for each in sockets.values():
            each.setblocking(False)

    async def send(self, to: int, head: bytes, body: memoryview) -> None:
        self.sent_bytes += len(body)
        async with self._locks[to]:
            data = _LENGTHS.pack(len(head), len(body)) + head + bytes(body)
            try:
                await asyncio.get_running_loop().sock_sendall(self._sockets[to], data)
            except OSError:
                raise PeerLost(f"rank {to} is gone", rank=to) from None

    async def receive(self, of: int) -> Message:
        head_bytes, body_bytes = _LENGTHS.unpack(await self._read(of, _LENGTHS.size))
        head = await self._read(of, head_bytes)
        return Message(head, memoryview(await self._read(of, body_bytes)))

    async def _read(self, of: int, size_bytes: int) -> bytes:
        data = b""
        while len(data) < size_bytes:
            got = b""
            with contextlib.suppress(OSError):
                got = await asyncio.get_running_loop().sock_recv(self._sockets[of], size_bytes - len(data))
            if not got:
                raise PeerLost(f"rank {of} is gone", rank=of)
            data += got
        return data


async def work(transport: SocketTransport) -> None:
    member = Collectives(transport)
    await member.agree()
    for _ in range(SUMS):
        await member.all_reduce(np.full(ITEMS, transport.rank, np.float32))
    with contextlib.suppress(PeerLost):
        while True:  # until it is killed or left
            await member.all_reduce(np.full(ITEMS, transport.rank, np.float32))
    await member.close()


if __name__ == "__main__":
    rank, size = int(sys.argv[1]), int(sys.argv[2])
    others = [other for other in range(size) if other != rank]
    found = {
        other: socket.socket(fileno=int(fd)) for other, fd in zip(others, sys.argv[3].split(","), strict=True)
    }
    asyncio.run(work(SocketTransport(rank, found)))
