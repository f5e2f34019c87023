"""The table of our own paths, and the lookup of paths of other packages by their entry points."""

from __future__ import annotations

from collections.abc import Mapping

from duetlink.extensions import PATHS, extensions
from duetlink.net.paths.base import Path
from duetlink.net.paths.carried import PunchedPath, RelayPath, UdpPath
from duetlink.net.paths.channel import ChannelPath
from duetlink.net.paths.local import LocalPath
from duetlink.net.paths.tcp import TcpPath

OURS: Mapping[str, type[Path]] = {
    path.name: path for path in (LocalPath, TcpPath, PunchedPath, UdpPath, RelayPath, ChannelPath)
}


def path_class(name: str) -> type[Path]:
    """Return the class of a path that this side's settings name. Raises ExtensionFailed."""
    if name in OURS:
        return OURS[name]
    extension = extensions(PATHS, frozenset(OURS))[name]
    found = extension.load()
    if not (isinstance(found, type) and issubclass(found, Path)) or found.name != name:
        raise extension.failed(f"it is no subclass of duetlink.net.paths.base.Path whose name is {name!r}")
    return found
