"""A sketch: a table of sums, in which each item is added to three cells.

Theory. An invertible Bloom lookup table (Goodrich and Mitzenmacher, arXiv 1101.2245) of integers. Each item
goes to one cell in each third of a table (partitioned hashing: never twice to the same cell). A cell sums
values, keys and checks, all modulo 2^64, so tables of several members can be added cell by cell, in any
order, without decoding. A key is the item's place (its index in the array) with a 1 in the bits above it, so
the sum of c keys of one place gives both c and the place; a cell holds a single place only if its check, a
hash of the place, is c times that of this place. Such a cell gives the item's sum, which is then subtracted
from its other two cells, and so on (`peel.py`). That reads everything while there are fewer than 1/1.222 =
0.818 places per cell, in large tables; small ones need more room.

Example: members hold 5 at place 7 and 3 at place 7. After adding their sketches, a cell that only place 7
went to has value 8, key 2 * 2^48 + 14 and check 2 * hash(7): the count is 2, the place 14 / 2 = 7, the sum 8.

If there are many places, another hash spreads them over segments. Each segment has its own table, so that an
overfull segment fails alone. Each also has a sum of all its values, each times an odd number that follows
from its place: the values read must have the same sum.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from duetlink.errors import RemoteProtocolError

HASHES = 3
WORDS_PER_CELL = 3  # values, keys, checks
MAX_ITEMS = 1 << 40
MAX_CELLS = 1 << 28
MAX_LOAD = MAX_CELLS // 2  # MAX_CELLS are always enough for this many places (`for_load`)
COUNT_SHIFT = np.uint64(48)
PLACE_MASK = np.uint64((1 << 48) - 1)
# Cells per expected place: 1.222 is the threshold of large tables. Ten more rows cover the variation of
# small ones.
ROOM = 1.35
_SPARE_ROWS = 10
SEGMENT_LOAD = 4096  # places per segment: their standard deviation, 1.6 %, is small beside ROOM
_WIRE = struct.Struct("<QIIQ")

Words = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class SketchPlan:
    """The parameters that members agree on before they make sketches to be added.

    At most 256 members: the key of a place has 48 bits for the sum of places and 16 for the count.

    Attributes:
        items: the number of items of the array.
        segments: the number of tables.
        rows: the number of cells in a third of a table.
        seed: the seed of the hashes; another one gives another arrangement.
    """

    items: int
    segments: int
    rows: int
    seed: int

    def __post_init__(self) -> None:
        if not 0 < self.items <= MAX_ITEMS or not 0 < self.segments < 1 << 31:
            raise ValueError(f"{self.items} items in {self.segments} segments")
        if not 0 < self.rows < 1 << 31 or self.segments * self.rows * HASHES > MAX_CELLS:
            raise ValueError(f"{self.rows} rows for each of {self.segments} segments")
        if not 0 <= self.seed < 1 << 64:
            raise ValueError(f"a seed of {self.seed}")

    @classmethod
    def for_load(cls, items: int, load: int, *, seed: int = 0) -> SketchPlan:
        """Return a plan with room for `load` places, at most `MAX_LOAD`; reading detects more."""
        segments = max(1, load // SEGMENT_LOAD)
        return cls(items, segments, int(ROOM * load / segments / HASHES) + 1 + _SPARE_ROWS, seed)

    @property
    def cells(self) -> int:
        """The number of cells of all tables."""
        return self.segments * HASHES * self.rows

    @property
    def words(self) -> int:
        """The number of 8-byte integers in a sketch."""
        return WORDS_PER_CELL * self.cells + self.segments

    def cells_of(self, places: Words) -> NDArray[np.int64]:
        """Return the three cells of each place: one row per third."""
        segments = self.segments_of(places) * (HASHES * self.rows)
        found = np.empty((HASHES, places.size), np.int64)
        for index in range(HASHES):
            high = mixed(places, self.seed + index) >> np.uint64(32)
            found[index] = segments + index * self.rows + ((high * np.uint64(self.rows)) >> np.uint64(32))
        return found

    def checks_of(self, places: Words) -> Words:
        return mixed(places, self.seed + HASHES)

    def factors_of(self, places: Words) -> Words:
        """Return an odd number per place: odd, so that no error of a value is lost."""
        return mixed(places, self.seed + HASHES + 1) | np.uint64(1)

    def sketch(self, places: NDArray[np.int64], values: NDArray[np.int64]) -> Words:
        """Return the sketch of one member: its places, each once, with the integers there."""
        found = np.zeros(self.words, np.uint64)
        value, key, check, totals = self.parts(found)
        marks, words = places.astype(np.uint64), values.view(np.uint64)
        checks = self.checks_of(marks)
        keys = marks + (np.uint64(1) << COUNT_SHIFT)
        for cells in self.cells_of(marks):
            np.add.at(value, cells, words)
            np.add.at(key, cells, keys)
            np.add.at(check, cells, checks)
        np.add.at(totals, self.segments_of(marks), words * self.factors_of(marks))
        return found

    def segments_of(self, places: Words) -> NDArray[np.int64]:
        if self.segments == 1:
            return np.zeros(places.size, np.int64)
        high = mixed(places, self.seed + HASHES + 2) >> np.uint64(32)
        return ((high * np.uint64(self.segments)) >> np.uint64(32)).astype(np.int64)

    def parts(self, sketch: Words) -> tuple[Words, Words, Words, Words]:
        """Return values, keys, checks and totals of a sketch, as views."""
        cells = self.cells
        return sketch[:cells], sketch[cells : 2 * cells], sketch[2 * cells : 3 * cells], sketch[3 * cells :]

    def to_wire(self) -> bytes:
        """Return 24 bytes that are equal for members who agree."""
        return _WIRE.pack(self.items, self.segments, self.rows, self.seed)

    @classmethod
    def from_wire(cls, data: bytes) -> SketchPlan:
        """Parse 24 bytes; raise RemoteProtocolError if they are malformed."""
        try:
            return cls(*_WIRE.unpack(data))
        except (struct.error, ValueError) as error:
            raise RemoteProtocolError(f"a malformed plan of a sketch: {error}") from None


def mixed(places: Words, seed: int) -> Words:
    """Hash each place: the finaliser of SplitMix64 (Steele, Lea and Flood 2014) after the seed."""
    start = np.uint64((seed * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) & (2**64 - 1))
    words: Words = places + start
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
