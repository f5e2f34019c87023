"""Round trips of what hypothesis can think of."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from duetlink.data.values import encode, summarise
from duetlink.testing.values import round_trip

SETTINGS = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])

floats = st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack("<d", struct.pack("<Q", bits))[0])
texts = st.text(st.characters(codec=None, exclude_categories=()))
keys = st.none() | st.booleans() | st.integers() | texts | st.binary() | st.tuples(st.integers(), texts)
leaves = (
    keys | floats | st.dates() | st.times() | st.datetimes() | st.timedeltas() | st.decimals() | st.uuids()
)
values = st.recursive(
    leaves | st.builds(bytearray, st.binary()) | st.frozensets(keys) | st.sets(keys),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(keys, inner),
    max_leaves=20,
)


def same(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return struct.pack("<d", left) == struct.pack("<d", right)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return same(list(left), list(right)) and same(list(left.values()), list(right.values()))
    return repr(left) == repr(right) if not isinstance(left, (set, frozenset)) else left == right


@SETTINGS
@given(values)
def test_nested_builtins(value: Any) -> None:
    assert same(round_trip(value), value)
    assert summarise(value) == encode(value).summary


dtypes = (
    npst.scalar_dtypes()
    | npst.unicode_string_dtypes()
    | npst.byte_string_dtypes()
    | npst.array_dtypes()
    | npst.nested_dtypes()
).filter(lambda dtype: "((" not in repr(dtype))  # titles, second names of fields, do not travel


@settings(SETTINGS, max_examples=80)
@given(
    dtypes.flatmap(lambda dtype: npst.arrays(dtype, npst.array_shapes(min_dims=0, min_side=0, max_side=4)))
)
def test_arrays_of_every_dtype(array: np.ndarray[Any, Any]) -> None:
    received = round_trip(array)
    assert received.dtype == array.dtype
    assert received.shape == array.shape
    assert received.tobytes() == array.tobytes()


@SETTINGS
@given(st.data())
def test_views_with_any_steps(data: st.DataObject) -> None:
    array = np.arange(120).reshape(4, 5, 6)
    view = array[data.draw(npst.basic_indices(array.shape, allow_newaxis=True, allow_ellipsis=True))]
    view = np.asarray(view).transpose(data.draw(st.permutations(range(np.ndim(view)))))
    received = round_trip(view)
    assert received.tolist() == view.tolist()
    assert received.flags.c_contiguous or received.flags.f_contiguous


@pytest.mark.parametrize("size", [255, 256, 257, 100_000])
@pytest.mark.parametrize("make", [bytes, bytearray, lambda size: "é" * size])
def test_long_and_short_data(make: Any, size: int) -> None:
    received = round_trip(make(size))
    assert received == make(size)
    assert type(received) is type(make(size))
