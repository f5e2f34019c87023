"""Copy Arrow arrays without the memory that no item shows.

Arrow leaves undefined the memory under a null, in a child of a struct or a union that is not selected,
between the items of lists, in dictionary values that no item uses, and before and after a slice. Cells that
their owner blanked are still there. `shown` gives each array a canonical form without any of this: two arrays
of one type that are equal have the same buffers, and if nothing is hidden they are the array's own.

https://arrow.apache.org/docs/format/Columnar.html
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from duetlink.data.values import arrow_views
from duetlink.data.values.numpy_shown import blanked, used
from duetlink.data.values.numpy_shown import shown as shown_items
from duetlink.errors import LimitExceeded

Numbers = np.ndarray[Any, Any]
_OFFSETS: dict[int, str] = {
    **dict.fromkeys((pa.lib.Type_STRING, pa.lib.Type_BINARY, pa.lib.Type_LIST, pa.lib.Type_MAP), "i4"),
    **dict.fromkeys((pa.lib.Type_LARGE_STRING, pa.lib.Type_LARGE_BINARY, pa.lib.Type_LARGE_LIST), "i8"),
    pa.lib.Type_LIST_VIEW: "i4",
    pa.lib.Type_LARGE_LIST_VIEW: "i8",
}
_NOTHING = pa.py_buffer(b"")


def shown(array: Any, *, plain_nan: bool = False, by_appearance: bool = False) -> Any:
    """Return an array of the same type and items, and nothing else in its memory.

    With `plain_nan`, all NaNs have the same bits. With `by_appearance`, dictionary values are in the order in
    which items use them, for libraries that do not show their order.

    Raises:
        LimitExceeded: views show far more than there is memory.
        MalformedValue, pyarrow.ArrowInvalid: its buffers are too small for it.
    """
    array.validate()
    return _Cutter(plain_nan, by_appearance).cut(array)


@dataclass(frozen=True, slots=True)
class _Cutter:
    plain_nan: bool
    by_appearance: bool

    def cut(
        self, array: Any, rows: Numbers | None = None, hidden: Numbers | None = None, nullable: bool = True
    ) -> Any:
        """Return the items at the positions `rows`, or all of them.

        Items that are `hidden` become null. If a field declares that it has no nulls (`nullable` false),
        which writers of Parquet rely on, they become zeros or empty items, if its type has such.
        """
        if rows is not None and not len(array):  # all rows are hidden, but positions need an item to refer to
            array = pa.nulls(1, array.type)
        type_ = array.type
        if isinstance(type_, pa.BaseExtensionType):
            return pa.ExtensionArray.from_storage(type_, self.cut(array.storage, rows, hidden, nullable))
        if isinstance(type_, pa.RunEndEncodedType):
            return self._runs(array, rows, hidden)
        if pa.types.is_union(type_):
            return self._union(array, rows, hidden)
        if pa.types.is_string_view(type_) or pa.types.is_binary_view(type_):
            arrow_views.check(array, sum(each.size for each in array.buffers() if each is not None))
            large = pa.large_string() if pa.types.is_string_view(type_) else pa.large_binary()
            return _without_views_of_nulls(self.cut(array.cast(large), rows, hidden, nullable).cast(type_))
        count = len(array) if rows is None else len(rows)
        missing = _missing(array, rows, hidden)
        if pa.types.is_null(type_):
            return pa.nulls(count)
        if isinstance(type_, pa.DictionaryType):
            return self._dictionary(array, rows, missing)
        own: list[Any] = []
        children: list[Any] | None = None
        if pa.types.is_struct(type_):
            children = [
                self.cut(array.field(at), rows, missing, type_.field(at).nullable)
                for at in range(type_.num_fields)
            ]
        elif pa.types.is_fixed_size_list(type_):
            children = [self._fixed_size_list(array, rows, missing)]
        elif type_.num_fields:
            own, children = self._list(array, rows, missing)
        elif type_.id in _OFFSETS:
            own = _text(array, rows, missing)
        else:
            own = [_bits(array, rows, missing) if type_.bit_width == 1 else self._fixed(array, rows, missing)]
        if not nullable and hidden is not None:
            missing = _missing(array, rows, None)
            missing = None if missing is None or hidden[missing].all() else missing & ~hidden
        validity = None if missing is None else _packed(~missing)
        nulls = 0 if missing is None else int(np.count_nonzero(missing))
        return pa.Array.from_buffers(type_, count, [validity, *own], nulls, children=children)

    def _fixed(self, array: Any, rows: Numbers | None, missing: Numbers | None) -> Any:
        width = array.type.bit_width // 8
        buffer = array.buffers()[1]
        if not len(array) or not width or buffer is None:
            return pa.py_buffer(bytes(width * (len(array) if rows is None else len(rows))))
        unit = next(size for size in (8, 4, 2, 1) if width % size == 0)
        items = _numbers(buffer, f"u{unit}", array.offset * width // unit, len(array) * width // unit)
        original = items = items.reshape(len(array), width // unit)
        if rows is not None:
            items = items[rows]
        if missing is not None:
            items = blanked(items, missing[:, None])
        if self.plain_nan and pa.types.is_floating(array.type):
            floats = items.reshape(-1).view(f"f{width}")
            plain = shown_items(floats, plain_nan=True)
            items = items if plain is floats else plain
        return buffer.slice(array.offset * width, len(array) * width) if items is original else _own(items)

    def _fixed_size_list(self, array: Any, rows: Numbers | None, missing: Numbers | None) -> Any:
        size = array.type.list_size
        items = array.values.slice(array.offset * size, len(array) * size)
        if rows is not None:
            rows = (rows[:, None] * size + np.arange(size)).reshape(-1)
        hidden = None if missing is None else np.repeat(missing, size)
        return self.cut(items, rows, hidden, array.type.value_field.nullable)

    def _list(self, array: Any, rows: Numbers | None, missing: Numbers | None) -> tuple[list[Any], list[Any]]:
        """Return the own buffers and the child of lists, large lists, maps and list views."""
        number = _OFFSETS[array.type.id]
        is_view = array.type.id in (pa.lib.Type_LIST_VIEW, pa.lib.Type_LARGE_LIST_VIEW)
        _, first, *rest = array.buffers()
        if is_view:
            starts = _numbers(first, number, array.offset, len(array))
            lengths = _numbers(rest[0], number, array.offset, len(array))
        else:
            offsets = _numbers(first, number, array.offset, len(array) + 1)
            if rows is None and not _hides(offsets, missing):
                return [_from_zero(array, offsets)], [self._items(array, *_first_and_count(offsets))]
            starts, lengths = offsets[:-1], np.diff(offsets)
        if rows is not None:
            starts, lengths = starts[rows], lengths[rows]
        if missing is not None:
            lengths = np.where(missing, 0, lengths)
        ends = np.cumsum(lengths, dtype=np.int64)
        total = int(ends[-1]) if len(ends) else 0
        within, child_rows = _consecutive(starts[lengths > 0], lengths[lengths > 0], total)
        if total > min(arrow_views.MAX_VIEWED_SHARE * within[1] + (1 << 20), np.iinfo(number).max):
            raise LimitExceeded("views of lists show far more than the memory there is")
        child = self._items(array, *within, child_rows)
        if is_view:
            return [_own((ends - lengths).astype(number)), _own(lengths)], [child]
        return [_own(np.concatenate([[0], ends]).astype(number))], [child]

    def _items(self, array: Any, start: int, count: int, rows: Numbers | None = None) -> Any:
        """Return the child of lists, or the entries of maps."""
        if not pa.types.is_map(array.type):
            return self.cut(array.values.slice(start, count), rows)
        parts = [self.cut(part.slice(start, count), rows) for part in (array.keys, array.items)]
        return pa.Array.from_buffers(array.type.field(0).type, len(parts[0]), [None], 0, children=parts)

    def _dictionary(self, array: Any, rows: Numbers | None, missing: Numbers | None) -> Any:
        """Drop values that no item uses."""
        indices, values = self.cut(array.indices, rows, missing), array.dictionary
        numbers = _integers(indices)
        kept = used(numbers, len(values), missing)
        kept = kept if self.by_appearance else np.sort(kept)
        if np.array_equal(kept, np.arange(len(values))):
            values = self.cut(values)
        else:
            places = np.zeros(len(values), numbers.dtype)
            places[kept] = np.arange(len(kept))
            values = self.cut(values, kept)
            indices = self.cut(pa.array(places[numbers], indices.type, mask=missing))
        type_ = array.type
        return pa.DictionaryArray.from_arrays(indices, values, ordered=type_.ordered, safe=False)

    def _runs(self, array: Any, rows: Numbers | None, hidden: Numbers | None) -> Any:
        """Keep the runs, cut at the array's start and end."""
        ends, values, count = _integers(array.run_ends), array.values, len(array)
        if rows is None and hidden is None:
            first, last = np.searchsorted(ends, (array.offset, array.offset + count - 1), "right")
            stop = last + 1 if count else first
            ends = np.minimum(ends[first:stop] - array.offset, count)
            values = self.cut(values.slice(first, stop - first))
        else:
            rows = np.arange(count) if rows is None else rows
            runs = np.searchsorted(ends, array.offset + rows, "right")
            runs = runs if hidden is None else np.where(hidden, -1, runs)
            last_of_run = np.append(runs[1:] != runs[:-1], True)[: len(runs)]
            ends, runs = np.flatnonzero(last_of_run) + 1, runs[last_of_run]
            values = self.cut(values, np.maximum(runs, 0), runs < 0)
        ends = pa.array(ends, array.type.run_end_type)
        return pa.RunEndEncodedArray.from_arrays(ends, values, array.type)

    def _union(self, array: Any, rows: Numbers | None, hidden: Numbers | None) -> Any:
        type_ = array.type
        _, codes, *rest = array.buffers()
        codes = _numbers(codes, "i1", array.offset, len(array))
        codes = codes if rows is None else codes[rows]
        codes = codes if hidden is None else np.where(hidden, type_.type_codes[0], codes).astype("i1")
        if type_.mode == "sparse":
            children = []
            for place, code in enumerate(type_.type_codes):
                other = codes != code if hidden is None else (codes != code) | hidden
                other = other if other.any() else None
                children.append(self.cut(array.field(place), rows, other, type_.field(place).nullable))
            own = [_own(codes)]
        else:
            offsets = _numbers(rest[0], "i4", array.offset, len(array))
            offsets = offsets if rows is None else offsets[rows]
            offsets = offsets if hidden is None else np.where(hidden, 0, offsets)
            children, places = [], np.zeros(len(codes), "i4")
            for place, code in enumerate(type_.type_codes):
                chosen = codes == code
                count = int(np.count_nonzero(chosen))
                places[chosen] = np.arange(count)
                within, child_rows = _consecutive(offsets[chosen], np.ones(count, "i4"), count)
                child_hidden = None if hidden is None else hidden[chosen]
                child, nullable = array.field(place).slice(*within), type_.field(place).nullable
                children.append(self.cut(child, child_rows, child_hidden, nullable))
            own = [_own(codes), _own(places)]
        return pa.Array.from_buffers(type_, len(codes), [None, *own], 0, children=children)


def _missing(array: Any, rows: Numbers | None, hidden: Numbers | None) -> Numbers | None:
    """Return a mask of the items that are null or hidden; None if there are none."""
    missing = hidden
    if array.null_count and not pa.types.is_null(array.type):
        nulls = ~_unpacked(array.buffers()[0], array.offset, len(array))
        nulls = nulls if rows is None else nulls[rows]
        missing = nulls if hidden is None else nulls | hidden
    return missing if missing is not None and missing.any() else None


def _bits(array: Any, rows: Numbers | None, missing: Numbers | None) -> Any:
    buffer, start, count = array.buffers()[1], array.offset, len(array)
    if buffer is None:
        return pa.py_buffer(bytes(-(-(count if rows is None else len(rows)) // 8)))
    if rows is None and missing is None and start % 8 == count % 8 == 0:
        return buffer.slice(start // 8, count // 8)
    bits = _unpacked(buffer, start, count)
    bits = bits if rows is None else bits[rows]
    return _packed(bits if missing is None else bits & ~missing)


def _text(array: Any, rows: Numbers | None, missing: Numbers | None) -> list[Any]:
    number = _OFFSETS[array.type.id]
    _, first, data = array.buffers()
    offsets = _numbers(first, number, array.offset, len(array) + 1)
    if rows is None and not _hides(offsets, missing):
        return [
            _from_zero(array, offsets),
            _NOTHING if data is None else data.slice(*_first_and_count(offsets)),
        ]
    if rows is None:
        kept = array.filter(pa.array(~missing))  # type: ignore[operator]  # it is not None here
    else:
        kept = array.take(pa.array(rows if missing is None else rows[~missing]))
    lengths = np.zeros(len(array) if rows is None else len(rows), np.int64)
    lengths[slice(None) if missing is None else ~missing] = np.diff(
        _numbers(kept.buffers()[1], number, kept.offset, len(kept) + 1)
    )
    return [_own(np.concatenate([[0], np.cumsum(lengths)]).astype(number)), _text(kept, None, None)[1]]


def _without_views_of_nulls(array: Any) -> Any:
    """Set the views of null items to zeros."""
    if not array.null_count:
        return array
    validity, views, *data = array.buffers()
    slots = _numbers(views, "u8", 2 * array.offset, 2 * len(array)).reshape(-1, 2).copy()
    slots[~_unpacked(validity, array.offset, len(array))] = 0
    valid = _packed(_unpacked(validity, array.offset, len(array)))
    return pa.Array.from_buffers(array.type, len(array), [valid, _own(slots), *data])


def _hides(offsets: Numbers, missing: Numbers | None) -> bool:
    """Return True if some null item has a non-empty range of offsets."""
    return missing is not None and bool((np.diff(offsets) * missing).any())


def _first_and_count(offsets: Numbers) -> tuple[int, int]:
    return int(offsets[0]), int(offsets[-1] - offsets[0])


def _from_zero(array: Any, offsets: Numbers) -> Any:
    if not len(array) or offsets[0]:
        return _own(offsets - offsets[0])
    return array.buffers()[1].slice(array.offset * offsets.itemsize, offsets.nbytes)


def _consecutive(starts: Numbers, lengths: Numbers, total: int) -> tuple[tuple[int, int], Numbers | None]:
    """Return the slice (start, length) of a child that covers these ranges.

    Also returns the positions within it, or None if the ranges follow each other without gaps.
    """
    if not total:
        return (0, 0), None
    if (starts[1:] == starts[:-1] + lengths[:-1]).all():
        return (int(starts[0]), total), None
    first, stop = int(starts.min()), int((starts + lengths).max())
    before = np.cumsum(lengths, dtype=np.int64) - lengths
    return (first, stop - first), np.repeat(starts - first - before, lengths) + np.arange(total)


# -- memory ------------------------------------------------------------------------------------------------


def _numbers(buffer: Any, number: str, start: int, count: int) -> Numbers:
    """Return a view of a buffer; zeros if there is no memory, as for an array without items."""
    size = np.dtype(number).itemsize
    if buffer is None or not buffer.size or not count:
        return np.zeros(count, number)
    return np.frombuffer(buffer, number, count, start * size)


def _integers(array: Any) -> Numbers:
    """Return the items of an array of integers, including the values under its nulls."""
    number = f"{'u' if pa.types.is_unsigned_integer(array.type) else 'i'}{array.type.bit_width // 8}"
    return _numbers(array.buffers()[1], number, array.offset, len(array))


def _own(items: Numbers) -> Any:
    return pa.py_buffer(np.ascontiguousarray(items).reshape(-1))


def _unpacked(buffer: Any, start: int, count: int) -> Numbers:
    octets = np.frombuffer(buffer, np.uint8)[start // 8 : -(-(start + count) // 8)]
    return np.unpackbits(octets, bitorder="little")[start % 8 :][:count].view(np.bool_)


def _packed(bits: Numbers) -> Any:
    return pa.py_buffer(np.packbits(bits, bitorder="little"))
