"""Check Arrow's views of text before their memory is read, at the sender and the receiver."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from duetlink.errors import LimitExceeded, MalformedValue

# Views may share memory, legitimately after a gather, but reading each of them takes time.
MAX_VIEWED_SHARE = 64
# https://arrow.apache.org/docs/format/Columnar.html#variable-size-binary-view-layout
_VIEW = np.dtype([("length", "<i4"), ("prefix", "V4"), ("buffer", "<i4"), ("offset", "<i4")])
_INLINE_BYTES = 12  # text up to this length is in the view itself


def check(array: Any, size_bytes: int) -> None:
    """Refuse views of text that lie outside of their memory, or together show far more than there is."""
    array.validate()
    pending = [array]
    while pending:
        array = pending.pop()
        type_ = array.type
        if isinstance(type_, pa.BaseExtensionType):
            pending.append(array.storage)
        elif isinstance(type_, pa.DictionaryType):
            pending.append(array.dictionary)
        elif isinstance(type_, pa.RunEndEncodedType):
            pending.append(array.values)
        elif pa.types.is_string_view(type_) or pa.types.is_binary_view(type_):
            _, views, *data = array.buffers()
            if views is not None and views.size:
                slots = np.frombuffer(views, _VIEW, min(views.size // 16, array.offset + len(array)))
                check_slots(slots, [0 if buffer is None else buffer.size for buffer in data])
                if int(slots["length"].sum(dtype=np.int64)) > MAX_VIEWED_SHARE * size_bytes + (1 << 20):
                    raise LimitExceeded("views of text show far more than the memory there is")
        elif pa.types.is_struct(type_) or pa.types.is_union(type_):
            pending.extend(array.field(index) for index in range(type_.num_fields))
        elif pa.types.is_map(type_):
            pending.extend((array.keys, array.items))
        elif type_.num_fields:
            pending.append(array.values)


def check_slots(slots: Any, sizes_bytes: list[int]) -> None:
    """Raise MalformedValue for a view that is not within its buffer, **also if the item is null**.

    Arrow's `validate` skips null items; polars reads all views when it copies or exports them.
    """
    long = slots[slots["length"] > _INLINE_BYTES]
    known = (long["buffer"] >= 0) & (long["buffer"] < len(sizes_bytes))
    sizes = np.array([*sizes_bytes, 0], np.int64)[np.where(known, long["buffer"], -1)]
    ends = long["offset"].astype(np.int64) + long["length"]
    if (slots["length"] < 0).any() or not (known & (long["offset"] >= 0) & (ends <= sizes)).all():
        raise MalformedValue("a view of text lies outside of its memory")
