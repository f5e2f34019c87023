"""Opens or joins a group; showing the code to the user is left to the caller."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import SupportsIndex

from duetlink.errors import MalformedCode, SettingError
from duetlink.groups.api.group import Group
from duetlink.groups.api.records import Records
from duetlink.groups.lifecycle.exit import Exit
from duetlink.groups.lifecycle.joining import Joining
from duetlink.groups.lifecycle.life import GroupLife
from duetlink.groups.links.meeting.knocking import knock
from duetlink.groups.links.meeting.wiring import Wiring
from duetlink.groups.membership.messages import MOST_MEMBERS
from duetlink.net.link.shared_endpoint import EndpointUse, shared_endpoint
from duetlink.net.signaling import GROUP, SessionCode, SignalingHello, configured
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
    """Open a group, or join one if there is a code. Arguments and errors are those of `duetlink.group`."""
    if only is not None and not isinstance(only, str):
        only = tuple(only)
    return _opened(_GroupArguments(code, settings, size, name, on_loss, patience_s, only))


def _opened(arguments: _GroupArguments) -> Group:
    parsed = arguments.check()
    use = shared_endpoint.use()
    try:
        return use.thread.run(arguments.open(use, parsed))
    except BaseException:
        use.thread.stop()
        raise


@dataclass(frozen=True, slots=True)
class _GroupArguments:
    """The arguments of `open_group`."""

    code: str | None
    settings: Settings
    size: int | None
    name: str | None
    on_loss: str
    patience_s: float
    only: Sequence[str] | None

    def check(self) -> SessionCode | None:
        """Check the arguments, and return the parsed code or None. Raises MalformedCode, SettingError."""
        code, size, only = self.code, self.size, self.only
        if code is not None and not isinstance(code, str):
            raise MalformedCode(
                f"a session code is a text, not {type(code).__name__}; for a size, say size={code!r}"
            )
        if code is not None and size is not None:
            raise SettingError("size is for the member that opens the group; to join, give only the code")
        if size is not None and (not isinstance(size, SupportsIndex) or not 2 <= size <= MOST_MEMBERS):
            raise SettingError(f"a group has 2 to {MOST_MEMBERS} members, not {size!r}")
        if self.name is not None and not isinstance(self.name, str):
            raise SettingError(f"name is a text by which the others see this member, not {self.name!r}")
        if self.on_loss not in ("raise", "continue"):
            raise SettingError(f"on_loss is 'raise' or 'continue', not {self.on_loss!r}")
        if not isinstance(self.patience_s, Real) or not self.patience_s >= 0:
            raise SettingError(f"patience_s is a number of seconds, 0 or more, not {self.patience_s!r}")
        if isinstance(only, str):
            raise SettingError(f"only is a list of operations: only=({only!r},)")
        if unknown := set(only or ()) - set(_ONLY):
            raise SettingError(f"only={tuple(sorted(unknown))}: choose from {', '.join(_ONLY)}")
        if self.settings.signaling == "paste":
            raise SettingError("a group needs a signaling server; it cannot be paired by hand")
        return None if code is None else SessionCode.parse(code)

    async def open(self, use: EndpointUse, parsed: SessionCode | None) -> Group:
        settings = self.settings
        await use.endpoint.open_fixed(settings)
        name = self.name or "member"
        hello = SignalingHello(PROTOCOL_MIN, PROTOCOL_MAX, __version__, name, frozenset((GROUP,)))
        wiring = Wiring(settings, use.endpoint, hello)
        records = Records(settings)
        await records.opened("a group" if parsed is None else "joining a group")
        # the signaling server then runs in this kernel
        is_hosting = parsed is None and configured(settings) is None
        server = await use.hosting.begin(settings) if is_hosting else configured(settings)
        code = None if parsed is None else str(parsed)
        life = GroupLife(wiring, on_loss=self.on_loss, patience_s=self.patience_s, size=self.size, code=code)
        joining = Joining(life, None if parsed is None else functools.partial(knock, wiring, parsed))
        member_exit = Exit(life, joining, use.hosting.end if is_hosting else None)
        try:
            if parsed is not None:
                await joining.come_in()
            else:
                assert server is not None
                await joining.launch(server, settings.code_lifetime_s)
        except BaseException:
            await member_exit.close()
            raise
        return Group(life, member_exit, use.thread, records, self.only, self._rejoin)

    def _rejoin(self, code: str) -> Group:
        return _opened(replace(self, code=code, size=None))
