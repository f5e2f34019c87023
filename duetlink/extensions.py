"""Finds extensions in other packages by their entry points: paths, value types, lists of operations.

Entry points are looked up once in each process. All extensions of a group are loaded together, when this side
first needs the group; a name that a peer sends never causes an import. Extensions cannot use duetlink's own
names.
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
# groups that decide which objects and operations a process knows; a room needs the same as its kernel
SHARED = (VALUES, OPERATIONS)


@dataclass(frozen=True, slots=True)
class Extension:
    """One entry point of an installed package."""

    group: str
    name: str
    package: str  # the distribution, with its version
    entry: importlib.metadata.EntryPoint

    def load(self) -> Any:
        """Import and return the object that the entry point names. Raises ExtensionFailed."""
        try:
            return self.entry.load()
        except Exception as error:
            raise self.failed(f"it cannot be loaded: {type(error).__name__}: {error}") from error

    def failed(self, why: str) -> ExtensionFailed:
        """Return the error for a faulty extension; `why` ends without a full stop."""
        return ExtensionFailed(f"{self}: {why}; uninstall the package, or install a version that works")

    def __str__(self) -> str:
        return f"{self.name!r} of {self.package} ({self.group})"


def entry_points(group: str) -> importlib.metadata.EntryPoints:
    """Return the entry points of a group, of the packages that were installed at the first call."""
    found: importlib.metadata.EntryPoints = _installed().select(group=group)
    return found


@functools.cache
def _installed() -> Any:  # Python 3.11 and 3.12 have different classes for it
    return importlib.metadata.entry_points()  # to read those of one group takes as long


@functools.cache
def extensions(group: str, reserved: frozenset[str]) -> Mapping[str, Extension]:
    """Return the extensions of a group by name. Raises ExtensionFailed for reserved or repeated names."""
    found: dict[str, Extension] = {}
    for entry in entry_points(group):
        extension = Extension(group, entry.name, _package(entry), entry)
        if entry.name in reserved:
            raise extension.failed("this name is duetlink's own")
        if entry.name in found:
            raise extension.failed(f"this name is taken by {found[entry.name].package}")
        found[entry.name] = extension
    return found


@functools.cache
def shared_extensions() -> tuple[str, ...]:
    """Return a sorted list, in words, of the extensions that a room and its kernel must have in common."""
    entries = (entry for group in SHARED for entry in entry_points(group))
    return tuple(sorted(f"{entry.name} of {_package(entry)} ({entry.group})" for entry in entries))


def _package(entry: importlib.metadata.EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "a package"
