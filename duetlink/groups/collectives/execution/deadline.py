"""A deadline for one operation of an engine; its error names the members that are late."""

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
    """Await an operation, and cancel it after `limit_s` seconds.

    Raises:
        GroupError: the deadline has passed. The text is `lateness`, or else names the members that have not
            called the collective operation that runs. In a collective one all members get the same reason.
    """
    why = ""

    def note() -> None:  # the reason has to be taken while the operation still waits
        nonlocal why
        engine.interruption = why = f"Timed out after {limit_s:g} s: {lateness or engine.lateness}"

    # scheduled before the time-out below, so that it fires first
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
