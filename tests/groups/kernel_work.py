"""What a member does in a notebook's kernel: every operation on arrays of many kinds, against NumPy."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import xxhash

from duetlink.groups.api.group import Group

DTYPES = ("float16", "float32", "float64", "complex64", "int8", "int64", "uint16", "bool")
OPS: dict[str, Any] = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}
OPS |= {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
LARGE = 300_001  # several frames

Array = np.ndarray[Any, Any]


def forms(rank: int, dtype: str) -> Iterator[Array]:
    """What this member gives: empty, odd, in several frames, and four that are not contiguous. Small
    integers, whose sums and products are exact in every kind of item.
    """
    random = np.random.default_rng(rank)
    plain = random.integers(0, 3, (31, 34)).astype(dtype)
    yield np.empty((0, 3), dtype)
    yield plain[0, 0]
    yield plain[0, :7].copy()
    yield plain.T
    yield plain[::2, ::-3]
    yield np.broadcast_to(plain[:, :1], (31, 5))
    yield np.asfortranarray(plain)
    yield random.integers(0, 3, LARGE).astype(dtype)


def ops(dtype: str) -> list[str]:
    """Those that have a meaning for items of this kind."""
    if dtype.startswith("complex"):
        return ["sum", "prod"]
    return ["sum", "prod", "min", "max"] if dtype.startswith("float") else list(OPS)


def same(found: Any, expected: Array) -> None:
    found = np.asarray(found)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.tobytes() == expected.tobytes()


def reductions(group: Group, dtype: str) -> None:
    """AssertionError where one is wrong."""
    rank = group.rank
    assert rank is not None
    for given in zip(*(forms(each, dtype) for each in range(group.size)), strict=True):
        for op in ops(dtype):
            same(group.all_reduce(given[rank], op), np.asarray(functools.reduce(OPS[op], given)))
        same(group.all_reduce(given[rank], algorithm="ring"), np.asarray(functools.reduce(np.add, given)))


def others(group: Group) -> None:
    """All other operations. AssertionError where one is wrong."""
    rank, size = group.rank, group.size
    assert rank is not None
    for given in zip(*(forms(each, "float32") for each in range(size)), strict=True):
        mine, total, last = given[rank], np.asarray(functools.reduce(np.add, given)), size - 1
        reduced = group.reduce(mine, last)
        assert (reduced is None) == (rank != last)
        if reduced is not None:
            same(reduced, total)
        same(group.broadcast(mine if rank == last else None, last), given[last])
        for found, expected in zip(group.all_gather(mine), given, strict=True):
            same(found, expected)
        gathered = group.gather(mine, 0)
        assert (gathered is None) == (rank != 0)
        for found, expected in zip(gathered or (), given, strict=rank == 0):
            same(found, expected)
        same(group.reduce_scatter([mine] * size), total)
        same(group.scatter(list(given) if rank == 0 else None), mine)
        for found, expected in zip(group.all_to_all([mine] * size), given, strict=True):
            same(found, expected)
        group.barrier()
        if rank % 2 == 0:  # a large message leaves when it is received
            group.send(mine, (rank + 1) % size)
        same(group.recv((rank - 1) % size).value, given[rank - 1])
        if rank % 2:
            group.send(mine, (rank + 1) % size)


def rounded(group: Group) -> str:
    """A digest of means of arbitrary numbers, which is the same at all members."""
    rank, size = group.rank, group.size
    assert rank is not None
    seen = xxhash.xxh3_64()
    for algorithm in (None, "ring"):  # rounding shows in which order was added: the same one at all
        rough = [np.random.default_rng(each).standard_normal(LARGE).astype("f") for each in range(size)]
        result = group.all_reduce(rough[rank], "mean", algorithm=algorithm)
        assert np.abs(result - np.mean(rough, axis=0, dtype=float)).max() < 1e-6  # float32, numbers below 6
        seen.update(result)
    return seen.hexdigest()
