"""A barrier that names the ranks which have not called it.

`torch.distributed.monitored_barrier` refuses every backend whose name is not gloo, so it does not reach this
code; `duetlink.groups.torch.monitored_barrier` does, with the same arguments and errors. Rank 0 waits for a
message of every other rank, and answers each: all have called the barrier, or these have not. A rank that
misses one barrier is one behind in all later ones.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta

import numpy as np

from duetlink.errors import CallTimeout, DuetError, GroupError
from duetlink.groups.collectives.collectives import Collectives

_HERE = np.zeros(0, np.uint8)


def seconds(timeout: timedelta | float) -> float:
    """Convert a timeout to seconds: torch passes a timedelta, users may pass a number."""
    return timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)


async def monitored_barrier(
    collectives: Collectives, number: int, timeout_s: float, *, wait_all_ranks: bool
) -> None:
    """Run the barrier with this number, counted from 0 in the group.

    Raises:
        GroupError: a rank has not called it within `timeout_s`. The text names the first missing rank, or
            with `wait_all_ranks` all of them, at every rank; if rank 0 is missing, it says that rank 0 did
            not answer.
    """
    tag = -1 - number  # users' tags are 0 or more
    if collectives.rank == 0:
        await _lead(collectives, tag, timeout_s, wait_all_ranks=wait_all_ranks)
        return
    reached = (
        f"Rank {collectives.rank} successfully reached monitoredBarrier, but received errors while waiting "
        "for send/recv from rank 0"
    )
    try:
        async with asyncio.timeout(timeout_s):
            await collectives.send(_HERE, 0, tag)
            answer = await collectives.recv(0, tag)
    except CallTimeout:
        raise
    except TimeoutError:
        raise GroupError(f"{reached}: no answer within {_ms(timeout_s)}") from None
    except DuetError as error:
        raise GroupError(f"{reached}: {error}") from error
    if len(text := np.asarray(answer.value, np.uint8).tobytes()):
        raise GroupError(f"{reached}: {text.decode('utf-8', 'replace')[:1000]}")


async def _lead(collectives: Collectives, tag: int, timeout_s: float, *, wait_all_ranks: bool) -> None:
    if timeout_s <= 0:
        raise GroupError(f"Rank 0 timed out in monitoredBarrier after {_ms(timeout_s)}")
    coming = {rank: asyncio.ensure_future(collectives.recv(rank, tag)) for rank in range(1, collectives.size)}
    try:
        deadline = asyncio.get_running_loop().time() + timeout_s
        missing: list[int] = []
        for rank, arrival in coming.items():
            left_s = max(0.0, deadline - asyncio.get_running_loop().time())
            await asyncio.wait([arrival], timeout=left_s)
            if not arrival.done() or arrival.exception() is not None:
                missing.append(rank)
                if not wait_all_ranks:
                    break
        words = ""
        if missing:
            who = f"Rank{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))}"
            words = f"{who} failed to pass monitoredBarrier in {_ms(timeout_s)}"
        there = [rank for rank, arrival in coming.items() if arrival.done() and rank not in missing]
        answer = np.frombuffer(words.encode(), np.uint8)
        await asyncio.gather(*(collectives.send(answer, rank, tag) for rank in there), return_exceptions=True)
    finally:
        for arrival in coming.values():
            arrival.cancel()
        await asyncio.gather(*coming.values(), return_exceptions=True)
    if words:
        raise GroupError(words)


def _ms(time_s: float) -> str:
    return f"{time_s * 1000:g} ms"
