"""How a newcomer comes to whoever lets it in under a code: again, where that may help."""

from __future__ import annotations

import asyncio

from duetlink.errors import (
    CallTimeout,
    CodeUnattended,
    LinkClosed,
    PairingTimeout,
    PeerUnreachable,
    SignalingUnavailable,
)
from duetlink.groups.links.meeting.wiring import Wiring
from duetlink.net.link.link import Link
from duetlink.net.signaling import SessionCode, WebSocketMailbox, configured, live_servers
from duetlink.settings import Settings

# Time for a group to find out that its host is gone, and for another member to take over.
_UNATTENDED_S = 45.0
_PAUSE_S = 1.0


async def knock(wiring: Wiring, code: SessionCode) -> tuple[Link, str]:
    """A link to the host of the group, and the address of the signaling server. Tries once more where
    pairing was too slow or broke, as it does on a machine that is busy with other newcomers.

    Raises:
        CodeUnattended: nobody waited under the code for 45 s. Else as `Wiring.join`.
        SignalingUnavailable: there is no server, or nothing says which one it is.
    """
    try:
        return await _once(wiring, code)
    except (PairingTimeout, PeerUnreachable, CallTimeout, LinkClosed, TimeoutError):
        return await _once(wiring, code)


async def _once(wiring: Wiring, code: SessionCode) -> tuple[Link, str]:
    loop = asyncio.get_running_loop()
    until_s = loop.time() + _UNATTENDED_S
    while True:
        try:
            mailbox = await _mailbox(code, wiring.settings)
        except CodeUnattended:
            if loop.time() > until_s:
                raise
            await asyncio.sleep(_PAUSE_S)
        else:
            return await wiring.join(mailbox, code), mailbox.url


async def _mailbox(code: SessionCode, settings: Settings) -> WebSocketMailbox:
    if code.url is not None:
        return await WebSocketMailbox.join(code.url, code.nameplate)
    server = configured(settings)
    servers = [server] if server is not None else await live_servers()
    if len(servers) != 1:
        raise SignalingUnavailable(
            f"{len(servers)} signaling servers run on this machine, and none is configured: use the whole "
            "code, with its @host:port, or set DUETLINK_SIGNALING to the server that whoever opened it uses"
        )
    return await WebSocketMailbox.join(servers[0].url, code.nameplate)
