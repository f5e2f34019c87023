"""What other packages add to duetlink, found by their entry points: paths, value types, lists of operations.

What is installed is looked up once in each process, and loaded by what this side does, all of a group
together. Nothing is found or imported because a peer has named it. Names of duetlink's own cannot be taken.
"""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from duetlink.errors import ExtensionFailed

PATHS = "duetlink.paths"
VALUES = "duetlink.values"
OPERATIONS = "duetlink.operations"
# what decides which objects and operations a process knows: the same in a room as in its kernel
SHARED = (VALUES, OPERATIONS)


@dataclass(frozen=True, slots=True)
class Extension:
    """One entry point of a package that is installed."""

    group: str
    name: str
    package: str  # the distribution, with its version
    entry: importlib.metadata.EntryPoint

    def load(self) -> Any:
        """What it names. Raises ExtensionFailed."""
        try:
            return self.entry.load()
        except Exception as error:
            raise self.failed(f"it cannot be loaded: {type(error).__name__}: {error}") from error

    def failed(self, why: str) -> ExtensionFailed:
        """The error for what is wrong with it; `why` ends without a full stop."""
        return ExtensionFailed(f"{self}: {why}; uninstall the package, or take a version that is mended")

    def __str__(self) -> str:
        return f"{self.name!r} of {self.package} ({self.group})"


@functools.cache
def extensions(group: str, reserved: frozenset[str]) -> Mapping[str, Extension]:
    """Those of a group, by name. Raises ExtensionFailed for a name that is reserved or is given twice."""
    found: dict[str, Extension] = {}
    for entry in importlib.metadata.entry_points(group=group):
        extension = Extension(group, entry.name, _package(entry), entry)
        if entry.name in reserved:
            raise extension.failed("this name is duetlink's own")
        if entry.name in found:
            raise extension.failed(f"this name is taken by {found[entry.name].package}")
        found[entry.name] = extension
    return found


@functools.cache
def shared_extensions() -> tuple[str, ...]:
    """In words, all that a room has to have as its kernel has it, in order."""
    entries = (entry for group in SHARED for entry in importlib.metadata.entry_points(group=group))
    return tuple(sorted(f"{entry.name} of {_package(entry)} ({entry.group})" for entry in entries))


def _package(entry: importlib.metadata.EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "a package"
