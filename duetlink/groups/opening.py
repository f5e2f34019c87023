"""Opens a group, or joins one: all but showing the code to a person."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from numbers import Real
from typing import SupportsIndex

from duetlink.errors import (
    MalformedCode,
    SettingError,
    SignalingUnavailable,
)
from duetlink.groups.group import Group
from duetlink.groups.life import GroupLife
from duetlink.groups.meeting.knocking import knock
from duetlink.groups.meeting.wiring import Wiring
from duetlink.groups.membership.messages import MOST_MEMBERS
from duetlink.groups.records import Records
from duetlink.net.link.shared_endpoint import EndpointUse, shared_endpoint
from duetlink.net.signaling import GROUP, Hello, SessionCode, WebSocketMailbox, configured, live_servers
from duetlink.settings import Settings
from duetlink.version import PROTOCOL_MAX, PROTOCOL_MIN, __version__

_ONLY = (
    "all_gather",
    "all_to_all",
    "average",
    "broadcast",
    "gather",
    "gossip",
    "recv",
    "reduce",
    "scatter",
    "secure_sum",
    "send",
    "sum",
    "sync",
)


def open_group(
    code: str | None,
    settings: Settings,
    *,
    size: int | None = None,
    name: str | None = None,
    on_loss: str = "raise",
    patience_s: float = 10.0,
    only: Sequence[str] | None = None,
) -> Group:
    """As `duetlink.group`, which says what the arguments mean and what is raised."""
    if only is not None and not isinstance(only, str):
        only = tuple(only)
    _check(code, size, name, on_loss, patience_s, only, settings)
    parsed = None if code is None else SessionCode.parse(code)
    use = shared_endpoint.use()

    def come_again(code: str) -> Group:
        return open_group(code, settings, name=name, on_loss=on_loss, patience_s=patience_s, only=only)

    try:
        return use.thread.run(_make(parsed, size, name, settings, on_loss, patience_s, only, use, come_again))
    except BaseException:
        use.thread.stop()
        raise


async def _make(
    code: SessionCode | None,
    size: int | None,
    name: str | None,
    settings: Settings,
    on_loss: str,
    patience_s: float,
    only: Sequence[str] | None,
    use: EndpointUse,
    come_again: Callable[[str], Group],
) -> Group:
    await use.endpoint.open_fixed(settings)
    hello = Hello(PROTOCOL_MIN, PROTOCOL_MAX, __version__, name or "member", frozenset((GROUP,)))
    wiring = Wiring(settings, use.endpoint, hello)
    life = GroupLife(settings, wiring, on_loss=on_loss, patience_s=patience_s, size=size)
    records = Records(settings)
    await records.opened("a group" if code is None else "joining a group")
    if code is None:
        server = configured(settings)
        if server is None:
            server = await use.hosting.begin(settings)
            life.at_end = use.hosting.end
        try:
            await life.launch(server)
        except BaseException:
            await life.close()
            raise
        return Group(life, use.thread, records, only, come_again)
    life.code = str(code)
    life.knock = functools.partial(knock, wiring, code, functools.partial(_mailbox, code, settings))
    link, url = await life.knock()
    try:
        life.join(link, url)
        await life.wait_seated()
    except BaseException:
        await life.close()
        raise
    return Group(life, use.thread, records, only, come_again)


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


def _check(
    code: str | None,
    size: int | None,
    name: str | None,
    on_loss: str,
    patience_s: float,
    only: Sequence[str] | None,
    settings: Settings,
) -> None:
    if code is not None and not isinstance(code, str):
        raise MalformedCode(
            f"a session code is a text, not {type(code).__name__}; for a size, say size={code!r}"
        )
    if code is not None and size is not None:
        raise SettingError("size is for whoever opens the group; to join, give the code alone")
    if size is not None and (not isinstance(size, SupportsIndex) or not 2 <= size <= MOST_MEMBERS):
        raise SettingError(f"a group has 2 to {MOST_MEMBERS} members, not {size!r}")
    if name is not None and not isinstance(name, str):
        raise SettingError(f"name is what the others see of this member, a text and not {name!r}")
    if on_loss not in ("raise", "continue"):
        raise SettingError(f"on_loss is 'raise' or 'continue', not {on_loss!r}")
    if not isinstance(patience_s, Real) or not patience_s >= 0:
        raise SettingError(f"patience_s is a time, not {patience_s!r}")
    if isinstance(only, str):
        raise SettingError(f"only is a list of operations: only=({only!r},)")
    if unknown := set(only or ()) - set(_ONLY):
        raise SettingError(f"only={tuple(sorted(unknown))}: choose from {', '.join(_ONLY)}")
    if settings.signaling == "paste":
        raise SettingError("a group needs a signaling server; it cannot be paired by hand")
