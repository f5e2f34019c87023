"""Numbers in classes that only ever merge, with the time of each merge: so they can be seen as they were."""

from __future__ import annotations

import sys
from array import array

NOW = (1 << 31) - 1


class Partition:
    """A disjoint-set forest whose links carry a time.

    A class is attached to a larger one and no path is ever shortened, so a walk to the root takes at most
    log2(n) links, times only grow along it, and the classes of an earlier time are those of the links before
    it.
    """

    __slots__ = ("_size", "attached", "parent", "when")

    def __init__(self) -> None:
        self.parent = array("i")  # -1: a root
        self.when = array("i")  # the link to the parent was made
        self._size = array("i")
        self.attached = array("i")  # the former roots, in the order in which they became links

    def __len__(self) -> int:
        return len(self.parent)

    @property
    def held_bytes(self) -> int:
        """The memory that it takes."""
        return sum(map(sys.getsizeof, (self.parent, self.when, self._size, self.attached)))

    def extend(self, count: int) -> None:
        """So many new numbers, each in a class of its own."""
        self.parent.extend(array("i", [-1]) * count)
        self.when.extend(array("i", [NOW]) * count)
        self._size.extend(array("i", [1]) * count)

    def find(self, number: int, before: int = NOW) -> int:
        """What stands for the class of `number`, by the merges before that time."""
        parent, when = self.parent, self.when
        while when[number] < before:  # a root has NOW
            number = parent[number]
        return number

    def merge(self, one: int, other: int, time: int) -> int:
        """Let two classes be one from `time` on, which never goes back; returns what stands for it."""
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
