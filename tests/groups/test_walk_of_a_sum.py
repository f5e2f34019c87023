"""Through how many files a sum goes, from `group.all_reduce` to the engine that sends it.

A reader follows calls. The walk is the sequence of files of duetlink/groups that calls enter from another
one, on all threads that the sum runs on. A *stay* is an entry of that sequence; one file several times in
succession is one stay. A *return* is a stay in a file that the walk had left before. To come back from a
call is neither, and a coroutine that goes on is not called again. What is read by its name alone is passed
through: properties, and what makes a value or has no name in the text (class methods, `__init__` and
the like, comprehensions); what these call counts as called by whoever has asked for them.

The walk ends where the engine is called. It is that of members on different hosts, in a call before which
they need not agree on anything, of an array of float32.
"""

from __future__ import annotations

import asyncio
import functools
import sys
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pytest

from duetlink import groups
from duetlink.groups.api.group import Group
from duetlink.groups.collectives import figures_agreement
from duetlink.groups.collectives.execution.engine import Engine
from duetlink.testing.faults import run_inside

from .conftest import TIMEOUT_S, MakeGroup, together, until

FOLDER = Path(groups.__file__).parent
MOST_STAYS = 12
MOST_RETURNS = 3
MOST_LINES = 400  # of each file that the sum runs through, also where a reader does not stop


class Walk:
    """Files that the calls of one member's sum enter: a hook for `sys.setprofile`."""

    def __init__(self, before: set[asyncio.Task[Any]]) -> None:
        """`before` are the tasks of the loop that are none of the sum's."""
        self._before = before
        self._entered: list[str] = []
        self._begun: set[FrameType] = set()  # kept, so that no later one takes its place in memory
        self.files: set[str] = set()  # all of them, with those that are passed through
        self.is_over = False

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if event != "call" or self.is_over or frame in self._begun or self._is_of_others():
            return
        self._begun.add(frame)
        if (passed := file_of(frame.f_code)) is not None:
            self.files.add(passed)
        file = stop(frame.f_code, frame.f_globals)
        if file is None:
            return
        caller, came_from = frame.f_back, None
        while caller is not None and came_from is None:
            came_from = stop(caller.f_code, caller.f_globals)
            caller = caller.f_back
        if came_from != file:
            self._entered.append(file)
        self.is_over = frame.f_code is Engine.perform.__code__

    def _is_of_others(self) -> bool:
        try:
            task = asyncio.current_task()
        except RuntimeError:  # a thread without a loop
            return False
        return task is None or task in self._before

    @property
    def stays(self) -> list[str]:
        return [file for file, _ in groupby(self._entered)]

    @property
    def returns(self) -> int:
        return len(self.stays) - len(set(self.stays))


@functools.cache
def file_of(code: CodeType) -> str | None:
    path = Path(code.co_filename)
    return str(path.relative_to(FOLDER)) if path.is_relative_to(FOLDER) else None


@functools.cache
def _stop(code: CodeType, kind: Hashable) -> str | None:
    if kind in (property, functools.cached_property, classmethod) or code.co_name.startswith(("<", "__")):
        return None
    return file_of(code)


def stop(code: CodeType, names: dict[str, Any]) -> str | None:
    """The file of duetlink/groups in which a reader stops for a call of that code, if any."""
    owner, _, name = code.co_qualname.rpartition(".")
    found = vars(names[owner]).get(name) if isinstance(names.get(owner), type) else None
    kind: Any = type(found)  # not hashable, as far as mypy knows
    return _stop(code, kind)


def walk_of(group: Group, others: list[Group], call: Callable[[Group], object]) -> Walk:
    """That of a call of `group`, for which the others wait."""

    async def inside() -> tuple[asyncio.AbstractEventLoop, set[asyncio.Task[Any]]]:
        return asyncio.get_running_loop(), asyncio.all_tasks()

    def waits(other: Group) -> bool:
        now = other.status().operation
        return now is not None and bool(now.waiting_for)

    with ThreadPoolExecutor(len(others)) as pool:
        waiting = [pool.submit(call, other) for other in others]
        until(lambda: all(map(waits, others)))
        loop, tasks = run_inside(group, inside())
        walk, is_hooked = Walk(tasks), threading.Event()
        threading.setprofile(walk)

        def hook() -> None:
            sys.setprofile(walk)
            is_hooked.set()

        loop.call_soon_threadsafe(hook)
        assert is_hooked.wait(TIMEOUT_S)
        sys.setprofile(walk)
        try:
            call(group)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            loop.call_soon_threadsafe(sys.setprofile, None)
        for each in waiting:
            each.result(TIMEOUT_S)
    assert walk.is_over
    return walk


async def on_different_hosts(*arguments: object, **options: object) -> None:
    return None


def test_a_sum_reads_downhill(make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures_agreement, "share_memory", on_different_hosts)
    members, value = make_group(2), np.ones(3, np.float32)
    for _ in range(2):  # before these they agree on figures of their links
        together(members, lambda group: group.all_reduce(value))

    walk = walk_of(members[0], members[1:], lambda group: group.all_reduce(value))

    assert walk.stays[0] == "api/blocking.py"
    assert walk.stays[-1] == "collectives/execution/engine.py"
    assert len(walk.stays) <= MOST_STAYS, walk.stays
    assert walk.returns <= MOST_RETURNS, walk.stays
    lines = {file: len((FOLDER / file).read_text("utf-8").splitlines()) for file in walk.files}
    assert {file: many for file, many in lines.items() if many > MOST_LINES} == {}
    assert set(walk.stays) < walk.files
