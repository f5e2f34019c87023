"""One process of `part_engine.py`: RANK SIZE PORT ROUNDS SIZES. Rank 0 prints seconds, by size and by way."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
import sys
import time
from collections.abc import Callable
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist

from duetlink.base.runtime.loop import LoopThread
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.collectives.reduce_options import ReduceOptions
from duetlink.groups.links.transport import Message

_LENGTHS = struct.Struct("<IQ")


class SocketTransport:
    """Plain TCP between every two members, who find each other by torch's store."""

    def __init__(self, rank: int, size: int, address: str = "127.0.0.1") -> None:
        self.rank = rank
        self.size = size
        self.sent_bytes = 0  # of bodies
        self._address = address
        self._sockets: dict[int, socket.socket] = {}
        self._locks = {other: asyncio.Lock() for other in range(size)}

    async def connect(self, store: dist.Store, name: str) -> None:
        loop = asyncio.get_running_loop()
        with socket.create_server((self._address, 0), backlog=self.size) as server:
            server.setblocking(False)
            place = f"{self._address}:{server.getsockname()[1]}"
            await asyncio.to_thread(store.set, f"{name}{self.rank}", place)
            for other in range(self.rank):
                told = await asyncio.to_thread(store.get, f"{name}{other}")
                host, _, port = told.decode().rpartition(":")
                self._sockets[other] = self._ready(socket.create_connection((host, int(port))))
                await loop.sock_sendall(self._sockets[other], bytes([self.rank]))
            while len(self._sockets) < self.size - 1:
                accepted = self._ready((await loop.sock_accept(server))[0])
                self._sockets[(await loop.sock_recv(accepted, 1))[0]] = accepted

    def _ready(self, connected: socket.socket) -> socket.socket:
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connected

    async def send(self, to: int, head: bytes, body: memoryview) -> None:
        self.sent_bytes += len(body)
        async with self._locks[to]:
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(self._sockets[to], _LENGTHS.pack(len(head), len(body)) + head)
            if len(body):
                await loop.sock_sendall(self._sockets[to], body)

    async def receive(self, of: int) -> Message:
        head_bytes, body_bytes = _LENGTHS.unpack(await self._read(of, _LENGTHS.size))
        head = bytes(await self._read(of, head_bytes))
        return Message(head, await self._read(of, body_bytes))

    async def _read(self, of: int, size_bytes: int) -> memoryview:
        data = np.empty(size_bytes, np.uint8).data
        done = 0
        while done < size_bytes:
            got = await asyncio.get_running_loop().sock_recv_into(self._sockets[of], data[done:])
            if not got:
                await asyncio.Event().wait()  # it has ended; whoever needs it no more waits no more
            done += got
        return data


def main() -> None:
    rank, size, port, rounds = (int(text) for text in sys.argv[1:5])
    sizes = json.loads(sys.argv[5])
    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", port, size, rank == 0, timeout=timedelta(seconds=60))
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    thread = LoopThread("benchmark")

    async def make(name: str, *, share: bool) -> Collectives:
        transport = SocketTransport(rank, size)
        await transport.connect(store, name)
        made = Collectives(transport)
        if share:
            await made.agree()
        return made

    shared = thread.run(make("shared", share=True))
    plain = thread.run(make("plain", share=False))
    assert shared.explain("all_reduce", 1).chosen.algorithm == "shared"

    array = np.empty(0, np.float32)
    ways: dict[str, Callable[[], object]] = {
        "gloo": lambda: dist.all_reduce(torch.from_numpy(array)),
        "shared memory": lambda: thread.run(shared.all_reduce(array, ReduceOptions(in_place=True))),
        "plain TCP": lambda: thread.run(plain.all_reduce(array, ReduceOptions(in_place=True))),
    }
    found = []
    for size_bytes in sizes:
        array = np.empty(size_bytes // 4, np.float32)
        calls = max(2, min(40, 8 * 1024 * 1024 // size_bytes))
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds + 1):
            for name, way in ways.items():
                array[:] = rank + 1
                dist.barrier()
                start_s = time.perf_counter()
                for _ in range(calls):
                    way()
                times[name].append((time.perf_counter() - start_s) / calls)
                expected = np.float32(size * (size + 1) / 2) * np.float32(size) ** (calls - 1)
                if not (array == expected).all():
                    raise SystemExit(f"{name}: {array[:3]}, not {expected}")
        found.append({name: taken[1:] for name, taken in times.items()})  # the first warms up
    if rank == 0:
        print(json.dumps(found), flush=True)
    dist.barrier()
    thread.run(shared.close())
    thread.run(plain.close())
    thread.stop()
    sys.stdout.flush()
    os._exit(0)  # gloo's threads may wait for members that have ended


if __name__ == "__main__":
    main()
