"""Arrow arrays with garbage wherever an array shows nothing.

Each item is made from a number, its seed: whether it is null, and what it holds. What is not seen, under a
null, beside a slice, among the values of a dictionary, is made from the seed and a second number, `garbage`.
So two arrays with the same seeds look equal, whatever their garbage.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

FIXED = (
    *(pa.int8(), pa.uint16(), pa.int32(), pa.uint64(), pa.bool_(), pa.float16(), pa.float32(), pa.float64()),
    *(pa.date32(), pa.timestamp("s", "Europe/Paris"), pa.duration("us"), pa.time64("us")),
    *(pa.decimal128(30, 2), pa.decimal256(50, 2), pa.month_day_nano_interval(), pa.binary(3), pa.binary(0)),
)
TEXTS = (
    *(pa.string(), pa.large_string(), pa.binary(), pa.large_binary()),
    *(pa.string_view(), pa.binary_view()),
)
LEAVES = (*FIXED, *TEXTS, pa.null())


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return (
        inner.map(pa.list_)
        | inner.map(pa.large_list)
        | inner.map(pa.list_view)
        | inner.map(pa.large_list_view)
        | inner.map(lambda type_: pa.list_(type_, 2))
        | inner.map(lambda type_: pa.map_(pa.string(), type_))
        | st.lists(inner, max_size=3).map(
            lambda types: pa.struct([(f"f{at}", each) for at, each in enumerate(types)])
        )
        | st.lists(inner, min_size=1, max_size=2).flatmap(
            lambda types: st.sampled_from(["sparse", "dense"]).map(
                lambda mode: pa.union([pa.field(f"f{at}", each) for at, each in enumerate(types)], mode)
            )
        )
    )


_once = st.sampled_from(LEAVES)
_indexed = st.sampled_from((*FIXED[:8], *TEXTS)).map(lambda type_: pa.dictionary(pa.int16(), type_))
_runs = st.sampled_from((*FIXED, *TEXTS)).map(lambda type_: pa.run_end_encoded(pa.int32(), type_))
types = st.recursive(_once | _indexed | _runs, _nested, max_leaves=4)


def soiled(type_: Any, seeds: list[int], garbage: int) -> Any:
    """An array with an item of each seed. Other garbage, and everything that is seen is the same."""
    around = random.Random(f"around {garbage} {len(seeds)}").randrange(3)
    hidden = [_hidden(number, garbage) for number in range(around)]
    return _whole(type_, [*hidden, *seeds, *hidden], garbage).slice(around, len(seeds))


def _hidden(seed: int, garbage: int) -> int:
    return random.Random(f"hidden {seed} {garbage}").getrandbits(40)


def _part(seed: int, number: int) -> int:
    return random.Random(f"part {seed} {number}").getrandbits(40)


def _is_null(seed: int) -> bool:
    return random.Random(f"null {seed}").random() < 0.3


def _chance(seed: int, below: int) -> int:
    return random.Random(f"chance {seed}").randrange(below)


def _bitmap(bits: list[bool], garbage: int) -> Any:
    """Beyond the end there are bits as well."""
    more = [garbage % 2 == 1] * (-len(bits) % 8 + 8)
    return pa.py_buffer(np.packbits([*bits, *more], bitorder="little"))


def _whole(type_: Any, seeds: list[int], garbage: int) -> Any:
    if pa.types.is_null(type_):
        return pa.nulls(len(seeds))
    if isinstance(type_, pa.RunEndEncodedType):
        ends = pa.array(np.arange(1, len(seeds) + 1), type_.run_end_type)
        return pa.RunEndEncodedArray.from_arrays(ends, soiled(type_.value_type, seeds, garbage), type_)
    if pa.types.is_union(type_):
        return _union(type_, seeds, garbage)
    valid = [not _is_null(seed) for seed in seeds]
    validity = None if all(valid) else _bitmap(valid, garbage)
    # what is under a null is hidden
    seeds = [seed if seen else _hidden(seed, garbage) for seed, seen in zip(seeds, valid, strict=True)]
    if isinstance(type_, pa.DictionaryType):
        return _dictionary(type_, seeds, valid, garbage)
    count = len(seeds)
    if type_ in TEXTS:
        return _text(type_, seeds, validity)
    if pa.types.is_struct(type_):
        fields = [
            soiled(type_.field(at).type, [_part(seed, at) for seed in seeds], garbage)
            for at in range(type_.num_fields)
        ]
        return pa.Array.from_buffers(type_, count, [validity], children=fields)
    if pa.types.is_fixed_size_list(type_):
        items = [_part(seed, at) for seed in seeds for at in range(type_.list_size)]
        child = soiled(type_.value_type, items, garbage)
        return pa.Array.from_buffers(type_, count, [validity], children=[child])
    if type_.num_fields:
        return _list(type_, seeds, validity, garbage)
    if type_ == pa.bool_():
        return pa.Array.from_buffers(
            type_, count, [validity, _bitmap([bool(_chance(seed, 2)) for seed in seeds], garbage)]
        )
    width = type_.bit_width // 8
    data = b"".join(bytes([_chance(seed, 100) + 1]).ljust(width, b"\0")[:width] for seed in seeds)
    return pa.Array.from_buffers(type_, count, [validity, pa.py_buffer(data)])


def _text(type_: Any, seeds: list[int], validity: Any) -> Any:
    texts = [f"{seed:x}" * _chance(seed, 4) for seed in seeds]
    is_binary = type_ in (pa.binary(), pa.large_binary(), pa.binary_view())
    full = pa.array([text.encode() for text in texts], pa.binary())
    full = full.cast(type_) if is_binary else full.cast(pa.string()).cast(type_)
    return pa.Array.from_buffers(type_, len(seeds), [validity, *full.buffers()[1:]])


def _list(type_: Any, seeds: list[int], validity: Any, garbage: int) -> Any:
    lengths = [_chance(seed, 3) for seed in seeds]
    items = [[_part(seed, at) for at in range(length)] for seed, length in zip(seeds, lengths, strict=True)]
    is_view = type(type_) in (pa.ListViewType, pa.LargeListViewType)
    number = "i8" if type(type_) in (pa.LargeListType, pa.LargeListViewType) else "i4"
    order = list(range(len(seeds)))
    if is_view:  # in any order, with something between
        random.Random(f"order {garbage}").shuffle(order)
    spare = garbage % 3
    flat = [_hidden(at, garbage) for at in range(spare)]
    starts = [0] * len(seeds)
    for place in order:
        starts[place] = len(flat)
        flat += items[place]
        if is_view:
            flat += [_hidden(place, garbage)] * spare
    if pa.types.is_map(type_):
        keys = pa.array([f"{seed:x}" for seed in flat], pa.string())
        child = pa.StructArray.from_arrays(
            [keys, soiled(type_.item_type, flat, garbage)], fields=list(type_.field(0).type)
        )
    else:
        child = soiled(type_.value_type, flat, garbage)
    if is_view:
        own = [pa.py_buffer(np.array(starts, number)), pa.py_buffer(np.array(lengths, number))]
    else:
        own = [pa.py_buffer(np.array([*starts, len(flat)], number))]
    return pa.Array.from_buffers(type_, len(seeds), [validity, *own], children=[child])


def _dictionary(type_: Any, seeds: list[int], valid: list[bool], garbage: int) -> Any:
    values, places = [], []
    for value in range(4):  # between those that may be seen there are others
        values += [_hidden(value, garbage)] * (garbage % 2 + (garbage + value) % 2)
        places.append(len(values))
        values.append(value)
    indices = [places[_chance(seed, 4)] for seed in seeds]
    index = type_.index_type
    data = np.array(indices, index.to_pandas_dtype())
    return pa.DictionaryArray.from_arrays(
        pa.Array.from_buffers(index, len(seeds), [_bitmap(valid, garbage), pa.py_buffer(data)]),
        soiled(type_.value_type, values, garbage),
    )


def _union(type_: Any, seeds: list[int], garbage: int) -> Any:
    codes = [_chance(seed, type_.num_fields) for seed in seeds]
    own = [None, pa.py_buffer(np.array(codes, "i1"))]
    children = []
    if type_.mode == "sparse":
        for at in range(type_.num_fields):
            parts = [
                _part(seed, at) if code == at else _hidden(seed, garbage)
                for seed, code in zip(seeds, codes, strict=True)
            ]
            children.append(soiled(type_.field(at).type, parts, garbage))
    else:
        offsets = [0] * len(seeds)
        for at in range(type_.num_fields):
            flat: list[int] = []
            for place, (seed, code) in enumerate(zip(seeds, codes, strict=True)):
                flat += [_hidden(seed, garbage)] * (garbage % 2)
                if code == at:
                    offsets[place] = len(flat)
                    flat.append(_part(seed, at))
            children.append(soiled(type_.field(at).type, flat, garbage))
        own.append(pa.py_buffer(np.array(offsets, "i4")))
    return pa.Array.from_buffers(type_, len(seeds), own, children=children)
