"""A script that forks while a duet and a group are open: `python forking.py HOW`, see `HOW`."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import duetlink
from duetlink.errors import LinkClosed
from duetlink.settings import Settings


def refused(call: Callable[[], object]) -> None:
    with pytest.raises(LinkClosed, match="a fork of it"):
        call()


def in_child(duet: Any, group: Any) -> None:
    """Use what was inherited, which raises, then something of its own."""
    assert list(duetlink.duets) == []
    for call in (
        lambda: duet.share(1, "of the child"),
        lambda: duet.wait_connected(),
        lambda: group.all_reduce(np.ones(1)),
        lambda: group.wait_ready(),
        lambda: duet.ping(),
    ):
        refused(call)
    duet.close()
    own = duetlink.launch(settings=Settings.from_environment())
    assert list(duetlink.duets) == [own]
    os.write(1, b"used\n")


def by_multiprocessing(duet: Any, group: Any) -> int | None:
    child = multiprocessing.get_context("fork").Process(target=in_child, args=(duet, group))
    child.start()
    child.join()
    return child.exitcode


def by_fork(duet: Any, group: Any) -> int:
    pid = os.fork()
    if pid == 0:
        in_child(duet, group)
        sys.exit(5)  # by the end of the interpreter, with all hooks
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) - 5


def by_data_loader(duet: Any, group: Any) -> int:
    from torch.utils.data import DataLoader

    numbers: Any = list(range(8))
    loader: DataLoader[int] = DataLoader(numbers, batch_size=2, num_workers=2, multiprocessing_context="fork")
    assert sorted(int(number) for batch in loader for number in batch) == list(range(8))
    os.write(1, b"used\n")
    return 0


HOW: dict[str, Callable[[Any, Any], int | None]] = {
    each.__name__: each for each in (by_multiprocessing, by_fork, by_data_loader)
}


def main() -> None:
    settings = Settings.from_environment()
    duet, group = duetlink.launch(settings=settings), duetlink.group(size=2, settings=settings)
    assert duet.code is not None
    scientist = duetlink.join(duet.code, settings=settings)
    assert HOW[sys.argv[1]](duet, group) == 0
    duet.share(np.ones(3), "still there")
    assert scientist.wait_object("still there", 60).name == "still there"
    os.write(1, b"done\n")


if __name__ == "__main__":
    main()
