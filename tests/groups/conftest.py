"""Groups of several members in one process, on its one endpoint, each called from a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

import duetlink
from duetlink.groups.api.group import Group
from duetlink.settings import Settings

_Each = TypeVar("_Each")

QUICK = Settings(
    heartbeat_interval_s=0.3, heartbeat_timeout_s=4.0, reconnect_timeout_s=5.0, pairing_timeout_s=30.0
)
TIMEOUT_S = 60.0

MakeGroup = Callable[..., list[Group]]


def together(groups: Sequence[_Each], call: Callable[[_Each], Any]) -> list[Any]:
    """What `call` gives with each, called by all at once; an error in the place of a result."""

    def one(group: _Each) -> Any:
        try:
            return call(group)
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(groups)) as pool:
        return list(pool.map(one, groups, timeout=TIMEOUT_S))


def until(holds: Callable[[], object]) -> None:
    """Wait for what happens by itself."""
    for _ in range(int(TIMEOUT_S * 100)):
        if holds():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it did not happen")


def waited_for(group: Group) -> tuple[int, ...]:
    """Return the ranks that a member's running operation waits for."""
    running = group.status().operation
    return running.waiting_for if running is not None else ()


def while_it_waits(group: Group, call: Callable[[Group], Any], then: Callable[[], Any]) -> list[Any]:
    """Return the result of `call` with a member and that of `then`, or the errors in their places.

    `then` begins when the member waits for others, so that the member hears of a failure in its running call.
    A call that began after the failure would wait for the next call of the others.
    """

    def wait_and_go_on() -> Any:
        until(lambda: waited_for(group))
        return then()

    return together([lambda: call(group), wait_and_go_on], lambda begin: begin())


@pytest.fixture
def make_group() -> Iterator[MakeGroup]:
    """Makes a group of `size` members, by rank; keyword arguments are those of `duetlink.group`."""
    made: list[Group] = []

    def make(size: int, **arguments: Any) -> list[Group]:
        arguments = {"settings": QUICK, "patience_s": 1.0, **arguments}
        launched = duetlink.group(size=size, name="member 0", **arguments)
        made.append(launched)
        for number in range(1, size):
            made.append(duetlink.group(launched.code, name=f"member {number}", **arguments))
        groups = made[-size:]
        for group in groups:
            group.wait_ready(TIMEOUT_S)
        return groups

    yield make
    together(made, lambda group: group.close()) if made else None
