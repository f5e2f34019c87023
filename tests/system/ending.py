"""A script that opens something and ends without closing it: `python ending.py KIND ENDING [ARGUMENT]`.

It prints "connected" when it is, and ends when it has read a line from standard input. A KIND that
opens prints "code" and the code first. ENDING says how it ends, see `END`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import duetlink
from duetlink.settings import Settings

QUICK = dataclasses.replace(Settings.from_environment(), heartbeat_interval_s=0.2, heartbeat_timeout_s=60.0)


def owner(_: str) -> Any:
    duet = duetlink.launch(settings=QUICK)
    print("code", duet.code, flush=True)
    duet.wait_connected(60)
    return duet


def scientist(code: str) -> Any:
    return duetlink.join(code, settings=QUICK)


def opener(size: str) -> Any:
    import numpy as np

    group = duetlink.group(size=int(size), name="ann", settings=QUICK)
    print("code", group.code, flush=True)
    group.wait_ready(60)
    assert group.all_reduce(np.ones(4)).tolist() == [float(size)] * 4
    return group


def member(code: str) -> Any:
    import numpy as np

    group = duetlink.group(code, name="ben", settings=QUICK)
    group.wait_ready(60)
    assert group.all_reduce(np.ones(4))[0] >= 2.0
    return group


def dropped(code: str) -> Any:
    """A member that holds on to nothing."""
    member(code)
    return None


def rank(where: str) -> Any:
    import torch
    import torch.distributed as dist

    import duetlink.groups.torch

    path, number = where.split("#")
    dist.init_process_group("duetlink", init_method=f"file://{path}", rank=int(number), world_size=2)
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [2.0, 2.0, 2.0]
    return duetlink.groups.torch


def torch_first(code: str) -> Any:
    import torch  # noqa: F401 - its exit hooks are registered before ours

    return member(code)


def raise_error() -> None:
    raise ValueError("mine")


def wait_for_interrupt() -> None:
    wait = concurrent.futures.wait

    def told(*arguments: Any) -> Any:
        """Called when everything has begun to close."""
        print("ending", flush=True)
        return wait(*arguments)

    concurrent.futures.wait = told  # type: ignore[assignment]
    print("waiting", flush=True)
    time.sleep(60)


END: dict[str, Callable[[], object]] = {
    "end": lambda: None,
    "exit": lambda: sys.exit(7),
    "raise": raise_error,
    "interrupt": wait_for_interrupt,
}


def no_more_threads() -> None:
    """From here on no thread can be started, as CPython 3.12 has it while an interpreter ends."""

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    threading.Thread.start = refuse  # type: ignore[method-assign]


KINDS: dict[str, Callable[[str], Any]] = {
    each.__name__: each for each in (owner, scientist, opener, member, dropped, rank, torch_first)
}


async def within_a_loop(kind: Callable[[str], Any], argument: str) -> Any:
    return await asyncio.to_thread(kind, argument)


def main() -> None:
    name, ending, argument = [*sys.argv[1:], ""][:3]
    looped = name.removeprefix("loop-")
    kind = KINDS[looped]
    held = asyncio.run(within_a_loop(kind, argument)) if looped != name else kind(argument)
    print("connected", os.getpid(), flush=True)
    if sys.stdin.readline().strip() == "no threads":
        no_more_threads()
    END[ending]()
    del held


if __name__ == "__main__":
    main()
