"""One process of `part_secure_sums.py`: RANK SIZE PORT ROUNDS SIZE_BYTES. Rank 0 prints seconds, by links."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from datetime import timedelta
from typing import Any

import numpy as np
import torch.distributed as dist

from benchmarks.part_engine_member import SocketTransport
from duetlink.base.runtime.loop import LoopThread
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.collectives.reduce_options import ReduceOptions
from duetlink.groups.secure.participants import Participants
from duetlink.groups.secure.sums import SecureSum

HELD = {"1 Gbit/s": 125e6, "100 Mbit/s": 12.5e6}


class HeldTransport(SocketTransport):
    """All that this member sends goes out at a rate, as through one network card."""

    def __init__(self, rank: int, size: int, bytes_per_s: float) -> None:
        super().__init__(rank, size)
        self._bytes_per_s = bytes_per_s
        self._card = asyncio.Lock()  # fair: messages keep their order

    async def send(self, to: int, head: bytes, body: memoryview) -> None:
        async with self._card:
            await asyncio.sleep((len(head) + len(body)) / self._bytes_per_s)
        await super().send(to, head, body)


def main() -> None:
    rank, size, port, rounds, size_bytes = (int(text) for text in sys.argv[1:6])
    store = dist.TCPStore("127.0.0.1", port, size, rank == 0, timeout=timedelta(seconds=60))
    thread = LoopThread("benchmark")
    party = Participants(1, tuple(bytes([number]) * 32 for number in range(size)))

    async def make(name: str, transport: SocketTransport, *, share: bool = False) -> Collectives:
        await transport.connect(store, name)
        made = Collectives(transport)
        if share:
            await made.agree()
        return made

    members = {
        "shared memory": thread.run(make("shared", SocketTransport(rank, size), share=True)),
        "TCP": thread.run(make("plain", SocketTransport(rank, size))),
    }
    for name, bytes_per_s in HELD.items():
        members[name] = thread.run(make(name, HeldTransport(rank, size, bytes_per_s)))
    array = np.random.default_rng(rank).uniform(-1, 1, size_bytes // 4).astype(np.float32)
    found: dict[str, dict[str, list[float]]] = {name: {"plain": [], "secure": []} for name in members}
    for _ in range(rounds + 1):
        for name, member in members.items():
            results: list[Any] = []
            for way in ("plain", "secure"):
                thread.run(member.barrier())
                start_s = time.perf_counter()
                if way == "plain":
                    result = thread.run(member.all_reduce(array))
                else:
                    result = thread.run(
                        SecureSum().run(member, party, array, ReduceOptions(secure=True, limit=1.0))
                    )
                found[name][way].append(time.perf_counter() - start_s)
                results.append(result)
            plain, secure = results
            if not np.allclose(plain, secure, rtol=0, atol=1e-5):
                raise SystemExit("the two sums differ")
    if rank == 0:
        first_warms_up = {
            name: {way: taken[1:] for way, taken in pair.items()} for name, pair in found.items()
        }
        print(json.dumps(first_warms_up), flush=True)
    for member in members.values():
        thread.run(member.barrier())
    for member in members.values():
        thread.run(member.close())
    thread.stop()
    sys.stdout.flush()
    os._exit(0)  # sockets that have ended are waited for


if __name__ == "__main__":
    main()
