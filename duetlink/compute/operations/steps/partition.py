"""Disjoint classes of numbers that only merge. Each merge has a time, so earlier states can be queried."""

from __future__ import annotations

import sys
from array import array

NOW = (1 << 31) - 1


class Partition:
    """A disjoint-set forest whose links carry a time.

    A class is attached to the larger one, and paths are never compressed. So a walk to the root takes at most
    log2(n) links, times increase along it, and the classes at an earlier time are those of the links made
    before.
    """

    __slots__ = ("_size", "attached", "parent", "when")

    def __init__(self) -> None:
        self.parent = array("i")  # -1: a root
        self.when = array("i")  # the time at which the link to the parent was made
        self._size = array("i")
        self.attached = array("i")  # former roots, in the order in which they got a parent

    def __len__(self) -> int:
        return len(self.parent)

    @property
    def held_bytes(self) -> int:
        """The memory of the forest, in bytes."""
        return sum(map(sys.getsizeof, (self.parent, self.when, self._size, self.attached)))

    def extend(self, count: int) -> None:
        """Add `count` numbers, each in a class of its own."""
        self.parent.extend(array("i", [-1]) * count)
        self.when.extend(array("i", [NOW]) * count)
        self._size.extend(array("i", [1]) * count)

    def find(self, number: int, before: int = NOW) -> int:
        """Return the root of a number's class, by the merges before that time."""
        parent, when = self.parent, self.when
        while when[number] < before:  # the `when` of a root is NOW
            number = parent[number]
        return number

    def merge(self, one: int, other: int, time: int) -> int:
        """Merge two classes from `time` on and return the root. Times of successive calls must not
        decrease.
        """
        one, other = self.find(one), self.find(other)
        if one == other:
            return one
        if self._size[one] < self._size[other]:
            one, other = other, one
        self.parent[other] = one
        self.when[other] = time
        self._size[one] += self._size[other]
        self.attached.append(other)
        return one
