"""Arrow types: the part of a type that is schema, and the memory that an item takes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from duetlink.compute.mocks.base import TEXT_BYTES

INNER = 2  # items of each list; the true number is data
# list type -> constructors of the type and of its array, the type of its offsets, and True if it has sizes
LISTS: dict[Any, tuple[Any, Any, Any, bool]] = {
    pa.ListType: (pa.list_, pa.ListArray, pa.int32(), False),
    pa.LargeListType: (pa.large_list, pa.LargeListArray, pa.int64(), False),
    pa.ListViewType: (pa.list_view, pa.ListViewArray, pa.int32(), True),
    pa.LargeListViewType: (pa.large_list_view, pa.LargeListViewArray, pa.int64(), True),
}


def is_list(type_: Any) -> bool:
    return type(type_) in LISTS


def bare(type_: Any) -> Any:
    """Return the type without the metadata of its fields: polars keeps the values of an Enum there,
    which are data.
    """
    if is_list(type_):
        return LISTS[type(type_)][0](_bare_field(type_.value_field))
    if pa.types.is_fixed_size_list(type_):
        return pa.list_(_bare_field(type_.value_field), type_.list_size)
    if pa.types.is_struct(type_):
        return pa.struct([_bare_field(type_.field(number)) for number in range(type_.num_fields)])
    if pa.types.is_map(type_):
        return pa.map_(_bare_field(type_.key_field), _bare_field(type_.item_field), type_.keys_sorted)
    if pa.types.is_union(type_):
        fields = [_bare_field(type_.field(number)) for number in range(type_.num_fields)]
        return pa.union(fields, type_.mode, type_.type_codes)
    if pa.types.is_dictionary(type_):
        return pa.dictionary(type_.index_type, bare(type_.value_type), type_.ordered)
    if pa.types.is_run_end_encoded(type_):
        return pa.run_end_encoded(type_.run_end_type, bare(type_.value_type))
    return type_


def _bare_field(field: Any) -> Any:
    return pa.field(field.name, bare(field.type), field.nullable)


def width_bytes(type_: Any) -> int:
    """Estimate the memory of an item, in bytes."""
    if isinstance(type_, pa.BaseExtensionType):
        return width_bytes(type_.storage_type)
    if pa.types.is_dictionary(type_):
        return width_bytes(type_.index_type)
    if pa.types.is_run_end_encoded(type_):
        return width_bytes(type_.value_type)
    if pa.types.is_fixed_size_list(type_):
        return int(type_.list_size) * width_bytes(type_.value_type)
    if is_list(type_):
        return 8 + INNER * width_bytes(type_.value_type)
    if pa.types.is_map(type_):
        return 8 + INNER * (width_bytes(type_.key_type) + width_bytes(type_.item_type))
    if pa.types.is_struct(type_) or pa.types.is_union(type_):
        return 5 + sum(width_bytes(type_.field(number).type) for number in range(type_.num_fields))
    if pa.types.is_null(type_):
        return 1
    try:
        return max(1, int(type_.bit_width) // 8)
    except ValueError:  # text and bytes of any length
        return TEXT_BYTES
