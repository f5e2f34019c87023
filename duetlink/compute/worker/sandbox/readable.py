"""The files that a room may read: the interpreter's, the installed libraries', and some of the system's."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

_SYSTEM = (
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/nix/store",
    "/etc/ld.so.cache",
    "/usr/share/zoneinfo",
    "/etc/localtime",
    "/dev/null",
    "/dev/urandom",
    # number and type of processors, by which libraries choose their compute kernels
    "/proc/cpuinfo",
    "/sys/devices/system/cpu",
    "/proc/self/maps",  # names and addresses of loaded libraries, for scikit-learn
)
if sys.platform == "darwin":
    _SYSTEM += ("/System/Library", "/Library/Developer")


def readable_paths(libraries: Iterable[str]) -> tuple[str, ...]:
    """Return the absolute paths that exist, each as it is spelled and with symbolic links resolved.

    A directory on sys.path that is not an installation directory, such as a checkout of duetlink, may hold
    private files: of such a directory, only the packages themselves are readable.
    """
    paths = [*_SYSTEM, *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))]
    paths += [str(Path(prefix, "lib")) for prefix in (sys.prefix, sys.base_prefix)]
    paths += os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    for entry in sys.path:
        if _installed(entry):
            paths.append(entry)
        else:
            paths += [str(Path(entry, name)) for name in ("duetlink", *libraries)]
    absolute = [os.path.abspath(path) for path in paths if os.path.isabs(path)]
    found = dict.fromkeys([*absolute, *map(os.path.realpath, absolute)])
    return tuple(path for path in found if os.path.realpath(path) != os.sep and os.path.exists(path))


def _installed(entry: str) -> bool:
    path = Path(entry)
    if path.is_file():  # the standard library as an archive
        return path.suffix == ".zip"
    return path.name in ("site-packages", "dist-packages") or any(path.glob("*.dist-info"))
