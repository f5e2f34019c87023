"""A relayed address (RFC 8656 §7) from the first of several TURN servers that gives one."""

from __future__ import annotations

import asyncio
import time

from aioice import Connection, ice, stun

from duetlink.errors import PathUnavailable, SettingError
from duetlink.net.stun.server_url import ServerUrl
from duetlink.net.stun.trouble import refusal, trouble

STAGGER_S = 0.4  # before the next server is asked too


async def allocate_first(
    connection: Connection, servers: list[ServerUrl]
) -> tuple[ServerUrl, ice.StunProtocol]:
    """Ask the TURN servers in order, the next one after STAGGER_S or when the previous one has failed.

    Raises:
        PathUnavailable: none gave an address; the message gives the reason for each.
    """
    waiting = [server for server in servers if server.kind == "turn"]
    asked: dict[asyncio.Task[ice.StunProtocol], ServerUrl] = {}
    whys: list[str] = []
    try:
        while waiting or asked:
            if waiting:
                server = waiting.pop(0)
                asked[asyncio.ensure_future(_allocate(connection, server))] = server
            done, _ = await asyncio.wait(
                asked, timeout=STAGGER_S if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in [task for task in asked if task in done]:
                error = task.exception()
                if error is None:
                    return asked.pop(task), task.result()
                server = asked.pop(task)
                whys.append(f"{server}: {_words(error, server)}")
    finally:
        for task in asked:
            task.cancel()
        for late in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(late, ice.StunProtocol):
                late.transport.close()
    raise PathUnavailable("; ".join(whys) or "no TURN server is set")


async def _allocate(connection: Connection, server: ServerUrl) -> ice.StunProtocol:
    if server.transport == "dtls":
        raise SettingError("TURN over DTLS is not supported; use turns: without ?transport=udp")
    _, protocol = await ice.relayed_candidate(
        component=1,
        hide_related_address=True,
        protocol_factory=lambda: ice.StunProtocol(connection),
        turn_server=(server.host, server.port),
        turn_username=server.username,
        turn_password=server.credential,
        turn_ssl=server.transport == "tls",
        turn_transport="udp" if server.transport == "udp" else "tcp",
    )
    return protocol


def _words(error: BaseException, server: ServerUrl) -> str:
    """Return what a TURN server did, as text for a person."""
    if isinstance(error, stun.TransactionFailed):
        code, reason = error.response.attributes.get("ERROR-CODE", (0, "no code given"))
        signed = server.username is not None
        return refusal(code, reason, server.username, time.time(), signed=signed)[1]
    if isinstance(error, stun.TransactionTimeout):
        error = TimeoutError()
    return trouble(error)[0] if isinstance(error, OSError) else str(error) or type(error).__name__
