"""Operands of collective operations: checked, named for errors, and in memory of their own."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import SupportsIndex

from duetlink.base.runtime.off_loop import off_loop
from duetlink.data.codecs.element import BY_NAME, Element
from duetlink.errors import SettingError, UnsupportedValue
from duetlink.groups.collectives.execution.elements import Array, combination, halves, mean_of_halves
from duetlink.groups.collectives.execution.encoding import Encoding
from duetlink.groups.collectives.values.trees import Tree, from_bytes, take_apart


def checked_rank(rank: SupportsIndex, size: int, *, but: int | None = None) -> int:
    """That rank as a Python number, so that calls compare as equal whatever kind of integer named it.

    Raises SettingError: there is no such rank, or it is `but`, this member's own.
    """
    try:
        number = operator.index(rank)
    except TypeError:
        number = -1
    if not 0 <= number < size:
        raise SettingError(f"no rank {rank!r} in a group of {size}; ranks are 0 to {size - 1}")
    if number == but:
        raise SettingError(f"rank {number} is this member; a message goes to another one")
    return number


def one_for_each(values: Sequence[object], size: int) -> list[Tree]:
    """The trees of a list of values, one for each member. Raises UnsupportedValue."""
    wanted = f"give a list of {size} values, one for each member"
    if not isinstance(values, list | tuple):
        raise UnsupportedValue(f"{wanted}, not {type(values).__name__}; list(array) cuts its first axis")
    if len(values) != size:
        raise UnsupportedValue(f"{wanted}, not {len(values)}")
    return [take_apart(value) for value in values]


def check(tree: Tree, op: str, *, in_place: bool) -> None:
    """Raise unless the operation can be done with all items, and the result can be written."""
    if not tree.leaves:
        raise UnsupportedValue("there is no array in this value")
    for element in tree.elements:
        combination(op, element)
    if in_place:
        check_writable(tree)


def check_codec(codec: str | None, elements: Sequence[Element], op: str) -> None:
    """Raise UnknownCodec or UnsupportedValue unless pieces of such items can travel by a lossless codec."""
    if codec is not None:
        for element in elements:
            Encoding.of(codec, widened(element, op))


def check_writable(tree: Tree) -> None:
    """Raise unless every leaf of it can be changed in place."""
    if any(leaf.write is None for leaf in tree.leaves):
        raise UnsupportedValue("numbers, Arrow arrays and read-only arrays cannot be changed in place")


def widened(element: Element, op: str) -> Element:
    """What is computed in: the sum that a mean of integers needs has 64 bits."""
    if op != "mean" or element.is_float or element.storage.kind not in "iu":
        return element
    return BY_NAME["int64" if element.storage.kind == "i" else "uint64"]


def in_halves(element: Element, op: str) -> bool:
    """Whether a mean is made of `halves`: the sum may need more than the 64 bits of an item."""
    return op == "mean" and element.name in ("int64", "uint64")


def described(tree: Tree, element: Element) -> str:
    """In words, those items of the value that are of one kind."""
    return tree.what if len(tree.elements) == 1 else f"{tree.what}, those of {element.name}"


@dataclass(slots=True)
class Operand:
    """The items of one kind of a value in the array in which they are summed, and back."""

    element: Element  # of the value
    wide: Element  # of the array
    op: str  # that is done with the array
    what: str  # in words, what it is
    array: Array
    halved_for: int = 0  # the members over whom a mean is made in halves; 0 if it is not

    @classmethod
    async def of(cls, tree: Tree, element: Element, op: str, size: int, *, in_place: bool = False) -> Operand:
        """Those of a value for that operation among so many members, in memory of their own; or in the
        value's own, `in_place`, which has to be one block.
        """
        wide, what, halved = widened(element, op), described(tree, element), in_halves(element, op)
        if in_place:
            return cls(element, wide, op, what, tree.flat(element))

        def make() -> Array:
            array = tree.flat(element, copy=True).astype(wide.storage, copy=False)
            return halves(array, size) if halved else array

        array: Array = await off_loop(sum(leaf.size_bytes for leaf in tree.leaves), make)
        if halved:
            return cls(element, wide, "sum", f"{what}, in halves", array, size)
        return cls(element, wide, op, what, array)

    def items(self) -> Array:
        """What became of the value's items: `array` as it is now, of the value's own kind."""
        array = mean_of_halves(self.array, self.halved_for) if self.halved_for else self.array
        return array.astype(self.element.storage, copy=False)


def values_of(forms: Sequence[Tree], sizes: Sequence[int], data: Array) -> list[object]:
    """Values of those forms, put together of the bytes of all of them, one after the other."""
    found = []
    start = 0
    for form, size in zip(forms, sizes, strict=True):
        found.append(form.with_items(from_bytes(form, data[start : start + size])))
        start += size
    return found
