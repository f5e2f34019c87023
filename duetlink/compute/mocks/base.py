"""The contract of the files that make mocks, one file per library."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from duetlink.compute.mocks.scope import Scope

# the assumed memory of a text, or of an item of a list, since its true length is data
TEXT_BYTES = 64


class Span(NamedTuple):
    """A range of memory that one part of an object occupies."""

    part: str
    start: int
    stop: int
    # keeps the memory alive: after a conversion, the next one could get the same address
    owner: object


class MockBuilder(Protocol):
    """Makes, describes and compares mocks of the objects of one library."""

    def rows(self, obj: Any) -> int | None:
        """Return the number of rows; None for objects without rows, such as a scalar."""

    def size_bytes(self, obj: Any) -> int:
        """Estimate the memory of a mock with as many rows as `obj`, from the schema alone."""

    def make(self, obj: Any, scope: Scope) -> object:
        """Return the mock. Values of `obj` are read only through the `Facts` that `scope.draw` gets.

        Raises:
            SettingError: no mock of an object of this type can be made, or not as the owner describes it.
        """

    def differences(self, obj: Any, mock: Any) -> Iterator[str]:
        """Yield the differences between the schemas of an object and a mock of the same type, each a
        clause.
        """

    def memory(self, obj: Any) -> Iterator[Span]:
        """Yield the ranges of memory that hold the object's values.

        Names are left out, and so is memory that a library shares between unrelated objects.
        """

    def part(self, obj: Any, start: int, stop: int) -> Any:
        """Return rows `start` to `stop`, to compare them by `equal`."""

    def equal(self, left: Any, right: Any) -> bool:
        """Compare all values. Missing values are equal to each other."""

    def is_ordinary(self, obj: Any) -> bool:
        """Return True if an unrelated object may equal this one by chance, since it holds few or no values.

        `check` accepts such a mock even if it equals the object. To refuse it would tell the scientist, mock
        by mock, which values the object does not have.
        """
