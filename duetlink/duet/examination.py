"""The interface of the network doctor that `duet.doctor()` uses. The doctor is in a package above this one;
`session` passes it in when it makes a duet.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from duetlink.net.paths.path_selector import PathStatus
from duetlink.settings import Settings


class Finding(Protocol):
    """The answer to one question about the network."""

    @property
    def name(self) -> str: ...
    @property
    def outcome(self) -> str: ...
    @property
    def words(self) -> str: ...


class Examination(Protocol):
    """All findings, and the verdict. It shows itself in a terminal and in a notebook."""

    @property
    def findings(self) -> Sequence[Finding]: ...
    @property
    def took_s(self) -> float: ...
    @property
    def rungs(self) -> Sequence[Any]:
        """The expectations for the paths tcp, punched, udp and relay."""

    @property
    def reachable(self) -> bool:
        """True if peers in other networks can be reached, provided that servers are configured for it."""

    @property
    def verdict(self) -> str:
        """The verdict in one sentence."""

    def to_json(self) -> dict[str, Any]:
        """Return the findings in the schema `duetlink-doctor/1`."""

    def json(self) -> str:
        """Return `to_json` as text."""


# arguments: settings, paths of the link, the one in use, time limit in seconds
Examine = Callable[[Settings, Sequence[PathStatus], str | None, float], Coroutine[Any, Any, Examination]]
