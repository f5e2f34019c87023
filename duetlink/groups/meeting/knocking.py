"""How a newcomer comes to whoever lets it in under a code: again, where that may help."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from duetlink.errors import (
    CallTimeout,
    CodeUnattended,
    LinkClosed,
    PairingTimeout,
    PeerUnreachable,
)
from duetlink.groups.meeting.wiring import Wiring
from duetlink.net.link.link import Link
from duetlink.net.signaling import SessionCode, WebSocketMailbox

# Time for a group to find out that its host is gone, and for another member to take over.
_UNATTENDED_S = 45.0
_PAUSE_S = 1.0


async def knock(
    wiring: Wiring, code: SessionCode, find_mailbox: Callable[[], Awaitable[WebSocketMailbox]]
) -> tuple[Link, str]:
    """A link to the host of the group, and the address of the signaling server. Tries once more where
    pairing was too slow or broke, as it does on a machine that is busy with other newcomers.

    Raises:
        CodeUnattended: nobody waited under the code for 45 s. Else as `Wiring.join` and `find_mailbox`.
    """
    try:
        return await _once(wiring, code, find_mailbox)
    except (PairingTimeout, PeerUnreachable, CallTimeout, LinkClosed, TimeoutError):
        return await _once(wiring, code, find_mailbox)


async def _once(
    wiring: Wiring, code: SessionCode, find_mailbox: Callable[[], Awaitable[WebSocketMailbox]]
) -> tuple[Link, str]:
    loop = asyncio.get_running_loop()
    until_s = loop.time() + _UNATTENDED_S
    while True:
        try:
            mailbox = await find_mailbox()
        except CodeUnattended:
            if loop.time() > until_s:
                raise
            await asyncio.sleep(_PAUSE_S)
        else:
            return await wiring.join(mailbox, code), mailbox.url
