"""Members in processes of their own on one host: sums in memory that they map, and one that is killed."""

from __future__ import annotations

import asyncio
import itertools
import socket
import subprocess
import sys

import numpy as np
import pytest

from duetlink.errors import PeerLost
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.collectives.reduce_options import ReduceOptions
from tests.groups.collectives.member import ITEMS, SUMS, SocketTransport

SIZE = 3


def start(rank: int, ends: dict[tuple[int, int], socket.socket]) -> subprocess.Popen[bytes]:
    fds = [ends[rank, other].fileno() for other in range(SIZE) if other != rank]
    arguments = [str(rank), str(SIZE), ",".join(map(str, fds))]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.groups.collectives.member", *arguments], pass_fds=fds
    )


async def test_processes_sum_in_shared_memory_until_one_is_killed() -> None:
    ends: dict[tuple[int, int], socket.socket] = {}
    for a, b in itertools.combinations(range(SIZE), 2):
        ends[a, b], ends[b, a] = socket.socketpair()
    processes = {rank: start(rank, ends) for rank in range(1, SIZE)}
    for (rank, _), end in ends.items():
        if rank != 0:
            end.close()
    transport = SocketTransport(0, {other: ends[0, other] for other in range(1, SIZE)})
    member = Collectives(transport)
    try:
        async with asyncio.timeout(60):
            await member.agree()
            assert member.explain("all_reduce", 1).chosen.algorithm == "shared"
            transport.sent_bytes = 0
            for _ in range(SUMS):
                total = await member.all_reduce(np.zeros(ITEMS, np.float32))
                assert isinstance(total, np.ndarray)
                assert (total.min(), total.max()) == (3, 3)
            assert transport.sent_bytes == 0
            processes[2].kill()  # it waits for rank 0 in the next sum
            processes[2].wait()
            given = np.full(ITEMS, 5, np.float32)
            with pytest.raises(PeerLost) as caught:
                await member.all_reduce(given, ReduceOptions(in_place=True))
            assert caught.value.rank in (1, 2)  # whoever left first: the other one has seen the loss too
            assert (given == 5).all()
    finally:
        await member.close()
        for end in ends.values():
            end.close()
        for process in processes.values():
            process.kill()
            process.wait()
