"""A group's operations for whoever has an event loop of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from duetlink.attributes import unknown
from duetlink.base.runtime.loop import LoopThread
from duetlink.errors import LocalProtocolError
from duetlink.groups.call import Call
from duetlink.groups.collectives.operation import here
from duetlink.groups.operations import OPERATIONS, Operations


class AwaitableGroup:
    """`await group.awaitable.all_reduce(x)`: the operations of a group, by the same names and arguments."""

    def __init__(self, operations: Operations, thread: LoopThread) -> None:
        self._operations = operations
        self._thread = thread

    def __dir__(self) -> list[str]:
        return list(OPERATIONS)

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        if name not in OPERATIONS:
            raise unknown("group.awaitable", name, OPERATIONS)
        thread, method = self._thread, getattr(self._operations, name)

        def called(*args: Any, **kwargs: Any) -> Awaitable[Any]:
            try:
                asyncio.get_running_loop()
            except RuntimeError:  # nobody could wait for what would begin here
                raise LocalProtocolError(f"no event loop runs here to await it: call group.{name}") from None
            return asyncio.wrap_future(thread.submit(method(Call(here()), *args, **kwargs)))

        return called
