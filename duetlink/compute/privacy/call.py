"""One step of a program as the rules of `rules.py` see it: its columns and constants, and their kinds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from duetlink.compute.privacy.table import BOOL, FLOAT, INT, NARROW, TEXT, Column, Rows, Table

_INT64 = range(-(2**63), 2**63)
_MOST_FLOAT = 1e38  # torch fails on constants that float32 cannot hold, but only if the column has a row


class Unstable(Exception):
    """Raised for a step that may not lead to a private statistic. The text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Named:
    """A constant that the allow-lists name, such as `numpy.float64`."""

    name: str


Item = Column | Named | bool | int | float | str | None | Sequence[Any]


@dataclass(frozen=True, slots=True)
class ColumnOperation:
    """One operation on columns of one library with the same rows, and on constants."""

    library: str
    items: Sequence[Item]
    keywords: Mapping[str, Item]

    def exactly(self, number: int) -> Sequence[Item]:
        """Return the items. Raises Unstable unless there are exactly `number` of them and no keywords."""
        if len(self.items) != number or self.keywords:
            raise Unstable(f"it takes {number} arguments here, and no keywords")
        return self.items

    def kinds(self, number: int, among: frozenset[str]) -> list[str]:
        """Return the kinds of the `number` items. Raises Unstable if one is not in `among`."""
        found = [kind_of(item) for item in self.exactly(number)]
        if not among.issuperset(found):
            raise Unstable(f"it takes {in_words(among)} here, not {in_words(set(found) - among)}")
        return found

    def constants(self, *names: str) -> list[Item]:
        """Return the arguments after the first in the order of `names`, given by position or keyword.

        An argument that was not given is None. Raises Unstable for others, and for one that is a column.
        """
        given: list[Item] = [*self.items[1:], *[None] * (len(names) + 1 - len(self.items))]
        if len(given) != len(names) or not set(self.keywords) <= set(names[len(self.items) - 1 :]):
            raise Unstable(f"it takes {', '.join(names)} here, and nothing else")
        found = [self.keywords.get(name, item) for name, item in zip(names, given, strict=True)]
        if any(isinstance(item, Column) for item in found):
            raise Unstable("only the first argument may be a column here, the others are constants")
        return found


def check_rows(first: Table, other: Table) -> None:
    """Raises Unstable if two tables may have different rows, or belong to different libraries."""
    if (first.rows.asset, first.rows.revision) != (other.rows.asset, other.rows.revision):
        raise Unstable(
            f"it combines {_named(first.rows)} and {_named(other.rows)}: a private statistic is of "
            "one asset, and its owner can share both as one"
        )
    if first.rows != other.rows:
        raise Unstable(
            "its columns were filtered in different steps: filter the frame once, and take the columns of "
            "the filtered frame"
        )
    if first.library != other.library:
        raise Unstable(f"it combines columns of {first.library} and of {other.library}")


def kind_of(item: Item) -> str:
    """Return the kind of a column or a constant; `none` if it is no number, truth value or text.

    Raises Unstable for an integer beyond 64 bits, NaN, and a float above 1e38.
    """
    if isinstance(item, Column):
        return item.kind
    if isinstance(item, bool):
        return BOOL
    if isinstance(item, int):
        if item not in _INT64:
            raise Unstable("a whole number is too large: it has to fit into 64 bits")
        return INT
    if isinstance(item, float):
        if not abs(item) <= _MOST_FLOAT:
            raise Unstable(f"a constant is NaN, or over {_MOST_FLOAT:g}")
        return FLOAT
    return TEXT if isinstance(item, str) else "none"


def _named(rows: Rows) -> str:
    return f"{rows.asset!r}, revision {rows.revision},"


def in_words(kinds: Iterable[str]) -> str:
    """Format kinds for people, such as `texts or truth values`."""
    words = {BOOL: "truth values", INT: "whole numbers", FLOAT: "floating point numbers", TEXT: "texts"}
    words[NARROW] = "whole numbers of less than 64 bits (convert them with astype('int64'))"
    return " or ".join(sorted({words.get(kind, "anything else") for kind in kinds}))
