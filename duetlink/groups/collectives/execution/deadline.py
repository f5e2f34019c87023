"""A deadline for one operation of an engine, which says whom it was waiting for."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from duetlink.errors import DuetError, GroupError
from duetlink.groups.collectives.execution.engine import INTERRUPTED, Engine

T = TypeVar("T")


async def within(
    engine: Engine, limit_s: float, operation: Coroutine[Any, Any, T], call: str, lateness: str = ""
) -> T:
    """Await one of the operations, which ends at its deadline at the latest.

    Raises GroupError then, which says who is late: `lateness`, or who has not called the collective
    operation that runs. If it is a collective one, the others are told the same.
    """
    why = ""

    def note() -> None:  # who is waited for, as long as somebody is
        nonlocal why
        engine.interruption = why = f"Timed out after {limit_s:g} s: {lateness or engine.lateness}"

    # an earlier deadline than that of the time-out below, so that it is kept first
    timer = asyncio.get_running_loop().call_later(limit_s, note)
    try:
        async with asyncio.timeout(limit_s):
            return await operation
    except TimeoutError as error:
        if isinstance(error, DuetError):  # an error of the operation itself
            raise
        raise GroupError(f"{call}: {why}") from None
    finally:
        timer.cancel()
        engine.interruption = INTERRUPTED
