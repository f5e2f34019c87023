"""`init_method="duetlink://7-crossover-clockwork?size=3"`: ranks of a job meet as the members of a group.

One rank gives no code, `duetlink://?size=3`; it prints the line for the others. Ranks are those of the group.
The arguments `name` (shown to the others) and `signaling` of `duetlink.group` may be added.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs

from torch.distributed.constants import default_pg_timeout
from torch.distributed.rendezvous import register_rendezvous_handler

from duetlink.errors import SettingError
from duetlink.groups.api.opening import open_group
from duetlink.groups.torch.group_store import GroupStore
from duetlink.settings import Settings

SCHEME = "duetlink"

_KNOWN = ("size", "world_size", "name", "signaling")
_LOOKS = 'init_method="duetlink://7-crossover-clockwork?size=3", or "duetlink://?size=3" to get a code'


@dataclasses.dataclass(frozen=True, slots=True)
class UrlArguments:
    """The arguments in a `duetlink://` URL."""

    code: str | None
    size: int
    name: str | None = None
    signaling: str | None = None

    @classmethod
    def parse(cls, url: str) -> UrlArguments:
        """Parse a URL. Raises SettingError for an unknown argument, or without exactly one size."""
        code, _, query = url.removeprefix(f"{SCHEME}://").partition("?")
        given = {key: values[-1] for key, values in parse_qs(query, keep_blank_values=True).items()}
        if "rank" in given:
            raise SettingError("ranks follow from the order in which members join: leave rank= out")
        if unknown := set(given) - set(_KNOWN):
            raise SettingError(f"{SCHEME}:// knows no {', '.join(sorted(unknown))}; {_LOOKS}")
        sizes = {given[key] for key in ("size", "world_size") if key in given}
        if len(sizes) != 1 or not (size := sizes.pop()).isdecimal():
            raise SettingError(f"say how many ranks there are, once: {_LOOKS}")
        return cls(code or None, int(size), given.get("name"), given.get("signaling"))


def meet(
    url: str, timeout: timedelta = default_pg_timeout, **_: Any
) -> Iterator[tuple[GroupStore, int, int]]:
    """Open or join the group of a URL, and yield its store, this rank and the size, once. torch calls this.

    Raises:
        SettingError: the URL is invalid, or the group has another size.
        PairingTimeout: some ranks have not joined within `timeout`.
        DuetError: as `duetlink.group`, such as WrongCode.
    """
    wanted = UrlArguments.parse(url)
    settings = Settings.from_environment()
    if wanted.signaling is not None:
        settings = dataclasses.replace(settings, signaling=wanted.signaling)
    group = open_group(wanted.code, settings, size=None if wanted.code else wanted.size, name=wanted.name)
    try:
        if wanted.code is None:
            print(_line(str(group.code), wanted.size), flush=True)
        group.wait_ready(timeout.total_seconds())
        if group.size != wanted.size:
            raise SettingError(
                f"the group has {group.size} members, and size={wanted.size} was asked for: give the size "
                "that the rank with the code gave"
            )
        store = GroupStore(group, owned=True)
    except BaseException:
        group.close()
        raise
    yield store, store.rank, store.size
    raise SettingError("the ranks of a job that has begun do not meet again: begin a new one")


def register() -> None:
    register_rendezvous_handler(SCHEME, meet)


def _line(code: str, size: int) -> str:
    return (
        f"Run this line at the {size - 1} who may come:\n\n"
        f'    torch.distributed.init_process_group("duetlink", init_method="duetlink://{code}?size={size}")\n'
    )
