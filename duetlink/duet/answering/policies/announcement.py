"""Shows on this side what a policy with `announce` or `log` has answered: the peer, the answer, and the
object.
"""

from __future__ import annotations

import asyncio
import logging

from duetlink.duet.answering.incoming import Incoming
from duetlink.duet.answering.policies.decision import Decision
from duetlink.duet.display import visible
from duetlink.duet.objects.asset import Content
from duetlink.duet.objects.preview import preview_of

_log = logging.getLogger("duetlink.policies")


async def announce(decision: Decision, request: Incoming, content: Content) -> None:
    """Print the answer (in a notebook, below the cell that ran last) or log it. Reads the object on a worker
    thread.
    """
    head = (
        f"{visible(decision.by)}: {request.state} {visible(request.asset.name)!r} for "
        f"{visible(request.peer_name)}; reason: {visible(request.reason) or 'none given'}"
    )
    policy = decision.policy
    assert policy is not None
    shown = await asyncio.to_thread(_shown, content)
    if policy.announce:
        print(f"{head}\n{shown}")
    if policy.log:
        _log.info("%s\n%s", head, shown)


def _shown(content: Content) -> str:
    try:
        return preview_of(content)
    except Exception as error:  # it cannot be decoded; the answer is shown nevertheless
        return f"not shown: {type(error).__name__}"
