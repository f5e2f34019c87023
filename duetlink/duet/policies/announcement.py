"""What a policy that announces shows on this side: who asked, what was answered, and the object itself."""

from __future__ import annotations

import asyncio

from duetlink.duet.asset import Content
from duetlink.duet.display import visible
from duetlink.duet.incoming import Incoming
from duetlink.duet.policies.decision import Decision
from duetlink.duet.preview import preview_of


async def announce(decision: Decision, request: Incoming, content: Content) -> None:
    """Print it, in a notebook below the cell that ran last. Reading the object may take a while."""
    head = (
        f"{visible(decision.by)}: {request.state} {visible(request.asset.name)!r} for "
        f"{visible(request.peer_name)}; reason: {visible(request.reason) or 'none given'}"
    )
    await asyncio.to_thread(_print, head, content)


def _print(head: str, content: Content) -> None:
    try:
        shown = preview_of(content)
    except Exception as error:  # of a library's repr: what was answered is shown all the same
        shown = f"not shown: {type(error).__name__}"
    print(f"{head}\n{shown}")
