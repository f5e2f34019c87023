"""One process of `part_sums.py`: RANK SIZE ADDRESS FIRST PORT ROUNDS ITEMS CASES. Rank 0 prints what it saw.

FIRST is the address of rank 0, CASES a list in JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NoReturn

import numpy as np
import torch
import torch.distributed as dist

from benchmarks.baselines import lhc
from benchmarks.part_engine_member import SocketTransport
from duetlink.base.runtime.loop import LoopThread
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.collectives.planning.costs import Costs, LinkFigures
from duetlink.groups.collectives.reduce_options import ReduceOptions

CODECS = ("auto", "union", "sketch", "integers")
AGAIN = "dense ring again"  # how far two measurements of the same are apart


def arrays_of(case: str, rank: int, items: int) -> np.ndarray:
    """What a member gives: normal numbers at some places, of which all or half are those of all members."""
    own = np.random.default_rng([rank, items])
    shared = np.random.default_rng(items)
    if case == "counts":
        return own.integers(-9, 10, items).astype(np.float32)
    values = own.standard_normal(items, dtype=np.float32)
    if case == "dense":
        return values
    density = float(case.split()[0]) / 100
    mine, common = own.random(items, np.float32), shared.random(items, np.float32)
    if "half" in case:
        common = np.where(np.arange(items) % 2, common, mine)
    elif "independent" in case:
        common = mine
    return np.where(common < density, values, np.float32(0))


def main() -> None:
    rank, size = int(sys.argv[1]), int(sys.argv[2])
    address, first, port = sys.argv[3], sys.argv[4], int(sys.argv[5])
    rounds, items, cases = int(sys.argv[6]), int(sys.argv[7]), json.loads(sys.argv[8])
    thread, transport, group = meet(rank, size, address, first, port)
    dense_s = learn_rate(thread, group, items)

    def all_gather(array: np.ndarray) -> np.ndarray:
        places = np.flatnonzero(array)
        mine = {"places": places.astype(np.int32), "values": array[places]}
        total = np.zeros_like(array)
        for each in thread.run(group.all_gather(mine)):
            assert isinstance(each, dict)
            total[each["places"]] += each["values"]
        return total

    def by_gloo(array: np.ndarray) -> np.ndarray:
        dist.all_reduce(torch.from_numpy(array))
        return array

    def by_codec(codec: str | None) -> Callable[[np.ndarray], Any]:
        options = ReduceOptions(in_place=True, codec=codec, algorithm="ring")
        return lambda array: thread.run(group.all_reduce(array, options))

    def by_lhc(array: np.ndarray) -> np.ndarray:
        thread.run(lhc.all_reduce(group, array))
        return array

    ways: dict[str, Callable[[np.ndarray], Any]] = {"dense ring": by_codec(None), "gloo": by_gloo}
    ways[AGAIN] = by_codec(None)
    ways["int32+float32 all-gather"] = all_gather
    ways |= {codec: by_codec(codec) for codec in CODECS} | {"lhc": by_lhc}
    found = {case: measured(case, ways, rank, items, rounds, group, transport) for case in cases}
    if rank == 0:
        print(json.dumps(found | {"dense_s": dense_s}), flush=True)
    part(thread, group)


def meet(
    rank: int, size: int, address: str, first: str, port: int
) -> tuple[LoopThread, SocketTransport, Collectives]:
    """The members of a gloo group, which is torch's default one, and of a group of ours."""
    torch.set_num_threads(1)
    store = dist.TCPStore(first, port, size, rank == 0, timeout=timedelta(seconds=60))
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    thread = LoopThread("benchmark")
    transport = SocketTransport(rank, size, address)

    async def make() -> Collectives:
        await transport.connect(store, "sums")
        return Collectives(transport)

    return thread, transport, thread.run(make())


def part(thread: LoopThread, group: Collectives) -> NoReturn:
    """End this process, once all others are about to end as well."""
    dist.barrier()
    thread.run(group.close())
    thread.stop()
    sys.stdout.flush()
    os._exit(0)  # gloo's threads may wait for members that have ended


def learn_rate(thread: LoopThread, group: Collectives, items: int) -> float:
    """Tell the group what its links carry, from dense sums: in a group of notebooks, links are measured."""
    array = np.zeros(items, np.float32)
    taken = []
    for _ in range(3):
        dist.barrier()
        start_s = time.perf_counter()
        thread.run(group.all_reduce(array, ReduceOptions(in_place=True, algorithm="ring")))
        taken.append(time.perf_counter() - start_s)
    mine = torch.tensor([min(taken)], dtype=torch.float64)
    dist.broadcast(mine, 0)
    dense_s = float(mine[0])
    rate = 2 * (group.size - 1) / group.size * array.nbytes / dense_s
    figures = LinkFigures(0.0005, rate)

    async def agree() -> None:
        group.flat.agree(Costs(((figures,) * group.size,) * group.size), None)

    thread.run(agree())
    return dense_s


def measured(
    case: str,
    ways: dict[str, Callable[[np.ndarray], Any]],
    rank: int,
    items: int,
    rounds: int,
    group: Collectives,
    transport: SocketTransport,
) -> dict[str, dict[str, Any]]:
    """Seconds, bytes and errors of each way, in turn.

    A shaped link treats whoever comes after a pause otherwise than whoever comes after a sum. So each round
    begins with another way.
    """
    given = arrays_of(case, rank, items)
    is_sparse = case not in ("dense", "counts")
    skipped = ("integers", AGAIN) if is_sparse else ("sketch", "lhc", "union", "int32+float32 all-gather")
    chosen = {name: way for name, way in ways.items() if name not in skipped}
    found: dict[str, dict[str, Any]] = {name: {"times_s": []} for name in chosen}
    group.flat.remembered.clear()  # what `auto` knows of other arrays of this form
    expected = given
    for index in range(rounds + 1):  # the first warms up
        first = index % len(chosen)
        for name, way in [*chosen.items()][first:] + [*chosen.items()][:first]:
            array = given.copy()
            dist.barrier()
            before_bytes = transport.sent_bytes
            start_s = time.perf_counter()
            result = way(array)
            found[name]["times_s"].append(time.perf_counter() - start_s)
            found[name]["sent_bytes"] = transport.sent_bytes - before_bytes if name != "gloo" else 0
            if name == "dense ring" and not index:
                expected = result.copy()
            found[name]["wrong"] = float(np.mean(result.view(np.uint32) != expected.view(np.uint32)))
            if name == "auto":
                found[name]["way"] = group.sums[-1].way
    for each in found.values():
        del each["times_s"][0]
    return found


if __name__ == "__main__":
    main()
