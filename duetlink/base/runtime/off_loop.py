"""Run work on large memory in another thread, so that the loop continues meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

# Work on more bytes blocks the loop longer than a switch to another thread and back takes, 0.1 to 0.3 ms.
_OFF_LOOP_BYTES = 1024 * 1024


async def off_loop(
    size_bytes: int, function: Callable[..., Any], *arguments: Any, least_bytes: int = _OFF_LOOP_BYTES
) -> Any:
    """Call `function`, in another thread if `size_bytes` is large.

    The function has ended when this returns or raises, also after a cancellation.
    """
    if size_bytes < least_bytes:
        return function(*arguments)
    future = asyncio.get_running_loop().run_in_executor(None, function, *arguments)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        while not future.done():  # wait even if cancelled again: the function still writes
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([future])
        raise
