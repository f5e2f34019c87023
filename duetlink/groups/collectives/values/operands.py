"""The operands of collective operations: checked, described for errors, and copied where necessary."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import SupportsIndex

import numpy as np

from duetlink.base.runtime.off_loop import off_loop
from duetlink.data.codecs.element import BY_NAME, Element
from duetlink.errors import SettingError, UnsupportedValue
from duetlink.groups.collectives.execution.elements import Array, combination, halves, mean_of_halves
from duetlink.groups.collectives.execution.encoding import Encoding
from duetlink.groups.collectives.values.trees import Tree, from_bytes, take_apart

_DESCRIBED_VALUES = 9  # a reduce-scatter among more members names only their number


def checked_rank(rank: SupportsIndex, size: int, *, but: int | None = None) -> int:
    """Return the rank as an int, so that calls with different integer types compare as equal.

    Raises:
        SettingError: there is no such rank, or it is `but`, this member's own.
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
    """Take apart a list of values, one for each member. Raises UnsupportedValue if it is not such a list."""
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
    """Raise UnknownCodec or UnsupportedValue unless the codec is lossless for such items."""
    if codec is not None:
        for element in elements:
            Encoding.of(codec, widened(element, op))


def check_writable(tree: Tree) -> None:
    """Raise unless every leaf can be changed in place."""
    if any(leaf.write is None for leaf in tree.leaves):
        raise UnsupportedValue("numbers, Arrow arrays and read-only arrays cannot be changed in place")


def widened(element: Element, op: str) -> Element:
    """Return the element to compute in: a mean of integers sums 64-bit integers."""
    if op != "mean" or element.is_float or element.storage.kind not in "iu":
        return element
    return BY_NAME["int64" if element.storage.kind == "i" else "uint64"]


def in_halves(element: Element, op: str) -> bool:
    """Return True if a mean is computed by `halves`: its sum may need more than 64 bits."""
    return op == "mean" and element.name in ("int64", "uint64")


def described(tree: Tree, element: Element) -> str:
    """Describe in words the value's items of one element."""
    return tree.what if len(tree.elements) == 1 else f"{tree.what}, those of {element.name}"


@dataclass(slots=True)
class Operand:
    """A value's items of one element, as the array in which they are summed, and back."""

    element: Element  # of the value's items
    wide: Element  # of the array's items
    op: str  # the operation on the array
    what: str  # a description in words
    array: Array
    halved_for: int = 0  # the number of members, for a mean in halves; otherwise 0
    given: Array | None = None  # the value's own memory, to be read in place of `array`, which is not filled

    @classmethod
    async def of(
        cls,
        tree: Tree,
        element: Element,
        op: str,
        size: int,
        *,
        in_place: bool = False,
        fill: bool = True,
        empty_like: Callable[[Array], Array] = np.empty_like,
    ) -> Operand:
        """Prepare a value's items for that operation among `size` members, in new memory.

        Args:
            in_place: in the value's own memory, which has to be one block.
            fill: new memory has the items also where the operation can read the value's own.
            empty_like: returns new memory for as many items of the same type, not filled.
        """
        wide, what, halved = widened(element, op), described(tree, element), in_halves(element, op)
        if in_place:
            return cls(element, wide, op, what, tree.flat(element))
        if not fill and tree.is_one_block and wide is element and not halved:
            given = tree.flat(element)
            return cls(element, wide, op, what, empty_like(given), given=given)

        def make() -> Array:
            array = tree.flat(element, copy=True).astype(wide.storage, copy=False)
            return halves(array, size) if halved else array

        array: Array = await off_loop(sum(leaf.size_bytes for leaf in tree.leaves), make)
        if halved:
            return cls(element, wide, "sum", f"{what}, in halves", array, size)
        return cls(element, wide, op, what, array)

    def items(self) -> Array:
        """Return `array` as it is now, converted to the value's own element."""
        return _narrowed(self.array, self.element, self.halved_for)


@dataclass(frozen=True, slots=True)
class MemberBlocks:
    """The items of one element of several values, one value for each member, as one array."""

    element: Element  # of the values' items
    wide: Element  # of the array's items
    op: str  # the operation on the array
    what: str  # a description in words
    given: Array
    sizes: list[int]  # the number of items of each value
    halved_for: int  # the number of members, for a mean in halves; otherwise 0

    @classmethod
    def of(cls, trees: Sequence[Tree], element: Element, op: str) -> MemberBlocks:
        wide, size = widened(element, op), len(trees)
        empty = np.empty(0, wide.storage)
        blocks = [tree.flat(element) if element in tree.elements else empty for tree in trees]
        what = "; ".join(described(tree, element) for tree in trees) if size <= _DESCRIBED_VALUES else ""
        what = f"{size} values {what}".rstrip()
        halved_for = 0
        if in_halves(element, op):
            blocks = [halves(block, size) for block in blocks]
            op, what, halved_for = "sum", f"{what}, in halves", size
        given = np.concatenate([block.astype(wide.storage, copy=False) for block in blocks])
        return cls(element, wide, op, what, given, [len(block) for block in blocks], halved_for)

    def items(self, out: Array) -> Array:
        """Return one member's part of the result, converted to the values' own element."""
        return _narrowed(out, self.element, self.halved_for)


def _narrowed(found: Array, element: Element, halved_for: int) -> Array:
    array = mean_of_halves(found, halved_for) if halved_for else found
    return array.astype(element.storage, copy=False)


def values_of(forms: Sequence[Tree], sizes: Sequence[int], data: Array) -> list[object]:
    """Build values of those forms from their bytes, which follow one another in `data`."""
    found = []
    start = 0
    for form, size in zip(forms, sizes, strict=True):
        found.append(form.with_items(from_bytes(form, data[start : start + size])))
        start += size
    return found
