"""Work on much memory in another thread, so that the loop goes on meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

# What keeps the loop for longer than the way to another thread and back, 0.1 to 0.3 ms beside other work.
_OFF_LOOP_BYTES = 1024 * 1024


async def off_loop(
    size_bytes: int, function: Callable[..., Any], *arguments: Any, least_bytes: int = _OFF_LOOP_BYTES
) -> Any:
    """Call it, in another thread if it works on much memory; it has ended when this returns or raises."""
    if size_bytes < least_bytes:
        return function(*arguments)
    future = asyncio.get_running_loop().run_in_executor(None, function, *arguments)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        while not future.done():  # once more cancelled or not: until then it writes
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([future])
        raise
