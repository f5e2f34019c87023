"""A group's operations as awaitables, for `async` code that runs in an event loop of its own."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Any

from duetlink.attributes import unknown
from duetlink.base.runtime.caller import here
from duetlink.base.runtime.loop import LoopThread
from duetlink.errors import LocalProtocolError
from duetlink.groups.api.call import Call
from duetlink.groups.api.operations import OPERATIONS, Operations
from duetlink.groups.collectives.reduce_options import ReduceOptions


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
        return functools.partial(self._begin, name)

    def all_reduce(
        self, value: Any, op: str = "sum", *, timeout_s: float | None = None, **options: Any
    ) -> Awaitable[Any]:
        return self._begin("all_reduce", value, ReduceOptions(op, **options), timeout_s=timeout_s)

    def average(
        self,
        value: Any,
        weight: float | None = None,
        *,
        secure: bool = False,
        limit: float | None = None,
        colluding: int | None = None,
        accountable: bool = False,
        timeout_s: float | None = None,
    ) -> Awaitable[Any]:
        options = ReduceOptions(
            "mean", secure=secure, limit=limit, colluding=colluding, accountable=accountable
        )
        return self._begin("average", value, weight, options, timeout_s=timeout_s)

    def _begin(self, name: str, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        try:
            asyncio.get_running_loop()
        except RuntimeError:  # the operation would begin, and nothing could await it
            raise LocalProtocolError(f"no event loop runs here to await it: call group.{name}") from None
        own = getattr(self._operations, name, None) or functools.partial(self._operations.run, name)
        call = Call(here())
        future = asyncio.wrap_future(self._thread.submit(own(call, *args, **kwargs)))
        return asyncio.ensure_future(_joined(future, call)) if call.copies else future


async def _joined(future: asyncio.Future[Any], call: Call) -> Any:
    try:
        return await future
    finally:
        call.copies.join()
