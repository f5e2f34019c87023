"""Connects a newcomer to the host by the session code, and retries where that may help."""

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

# Time for a group to notice that its host is lost, and for another member to take over.
_UNATTENDED_S = 45.0
_PAUSE_S = 1.0


async def knock(wiring: Wiring, code: SessionCode) -> tuple[Link, str]:
    """Return a link to the host of the group, and the address of the signaling server.

    Tries a second time if pairing was too slow or broke, as happens on a machine that is busy with other
    newcomers.

    Raises:
        CodeUnattended: no host waited under the code for 45 s.
        SignalingUnavailable: no server is running, or it is not clear which one to use.
        DuetError: as `Wiring.join`.
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
            "code, with its @host:port, or set DUETLINK_SIGNALING to the server of the member that opened it"
        )
    return await WebSocketMailbox.join(servers[0].url, code.nameplate)
