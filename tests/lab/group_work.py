"""What a member of a group does in the lab: every operation, held against NumPy. Runs in the notebooks."""

from __future__ import annotations

from typing import Any

import numpy as np
import xxhash

from duetlink.groups.api.group import Group

ITEMS = 200_000


def whole(rank: int) -> np.ndarray[Any, Any]:
    """Numbers whose sums are exact, so that there is one right result whatever is added first."""
    return np.random.default_rng(rank).integers(-999, 999, ITEMS).astype(np.float32)


def everything(group: Group) -> list[str]:
    """Digests of all results that are the same at all members. AssertionError where one is wrong."""
    group.barrier()  # after a loss, the epoch that follows begins with the next operation
    rank, size = group.rank, group.size
    assert rank is not None
    mine, all_of_them = whole(rank), [whole(each) for each in range(size)]
    total = np.sum(all_of_them, axis=0, dtype=np.float32)
    last = size - 1
    quarter = [np.array_split(each, size) for each in all_of_them]
    rough = np.random.default_rng(100 + rank).standard_normal(ITEMS).astype(np.float32)
    exact = sum(np.random.default_rng(100 + each).standard_normal(ITEMS) for each in range(size))

    summed = group.all_reduce(mine)
    same(summed, total)
    same(group.all_reduce(mine.astype(np.int64), "max"), np.max(all_of_them, axis=0).astype(np.int64))
    added = group.all_reduce(rough)
    assert np.abs(added - exact).max() < 1e-5
    mean = group.average({"w": rough})["w"]
    assert np.abs(mean - exact / size).max() < 1e-5
    reduced = group.reduce(mine, last)
    assert (reduced is None) == (rank != last)
    if rank == last:
        same(reduced, total)
    same(group.reduce_scatter(quarter[rank]), np.array_split(total, size)[rank])
    same(group.broadcast(mine if rank == last else None, last), all_of_them[last])
    for found, expected in zip(group.all_gather(mine), all_of_them, strict=True):
        same(found, expected)
    gathered = group.gather(mine, 0)
    assert (gathered is None) == (rank != 0)
    for found, expected in zip(gathered or (), all_of_them, strict=False):
        same(found, expected)
    same(group.scatter(quarter[0] if rank == 0 else None), quarter[0][rank])
    for of, found in enumerate(group.all_to_all(quarter[rank])):
        same(found, quarter[of][rank])
    group.barrier()
    agreed = group.sync({"w": whole(0) if rank else mine})["w"]  # all hold the same
    if rank % 2:
        group.send(mine, rank - 1)
    elif rank + 1 < size:
        same(group.recv(rank + 1).value, all_of_them[rank + 1])
    return [
        xxhash.xxh3_64_hexdigest(np.ascontiguousarray(each).data) for each in (summed, added, mean, agreed)
    ]


def same(found: Any, expected: Any) -> None:
    assert found.dtype == expected.dtype
    assert (found == expected).all()
