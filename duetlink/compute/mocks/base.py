"""The contract of the files that make twins, one per library."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from duetlink.compute.mocks.scope import Scope

# what a text, or a part of a list, is taken to need: its own length is data
TEXT_BYTES = 64


class Span(NamedTuple):
    """A stretch of memory that an object lies in, and which part of the object."""

    part: str
    start: int
    stop: int
    # keeps the memory: where the values had to be converted, the next conversion would get the same address
    owner: object


class MockBuilder(Protocol):
    """One library's objects."""

    def rows(self, obj: Any) -> int | None:
        """How many rows; None for what has none, such as a scalar."""

    def size_bytes(self, obj: Any) -> int:
        """The memory that a twin of as many rows takes: roughly, and from the schema alone."""

    def make(self, obj: Any, scope: Scope) -> object:
        """The twin. Of `obj`, values are looked at only by the `Facts` that `scope.draw` is given.

        Raises:
            SettingError: of an object of this type no twin can be made, or not as the owner wants it.
        """

    def differences(self, obj: Any, mock: Any) -> Iterator[str]:
        """How the schema of a mock of the same type differs, one sentence without an end each."""

    def memory(self, obj: Any) -> Iterator[Span]:
        """Where the object's values lie. Names, and what libraries share on their own, are left out."""

    def part(self, obj: Any, start: int, stop: int) -> Any:
        """Some of the rows, for `equal`."""

    def equal(self, left: Any, right: Any) -> bool:
        """Whether the values are the same, missing ones too."""

    def is_ordinary(self, obj: Any) -> bool:
        """Whether others may well hold the same by chance: next to nothing, or a few truth values.

        To refuse a mock for being the same would tell what such an object does not hold.
        """
