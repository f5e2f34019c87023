"""Arrays in memory that a peer of this host can map."""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from duetlink.base.runtime import shared_memory
from duetlink.base.runtime.mappable import MappableMemory, memory_at
from duetlink.data.values import decode, encode
from duetlink.data.values.empty import SharedByCopy, empty, empty_like, seal

MIB = 1024 * 1024
COUNT = MIB // 8
linux = pytest.mark.skipif(sys.platform != "linux", reason="memfds exist on Linux only")


def is_mappable(array: np.ndarray[Any, Any]) -> bool:
    return memory_at(array.ctypes.data, array.nbytes) is not None


def sealed(value: object) -> Any:
    """What the receiver decodes of a value that was sealed in place; None if it was not."""
    encoded, memory = seal(encode(value))
    if memory is None:
        return None
    assert b"".join(encoded.segments) == memory.body == b"".join(encode(value).segments)
    return decode(memory.copy_on_write())


@linux
@pytest.mark.parametrize("order", ["C", "F"])
def test_it_is_an_array_as_numpy_makes_it_in_mappable_memory(order: Any) -> None:
    array = empty((COUNT // 4, 4), "float64", order)
    assert (array.shape, array.dtype) == ((COUNT // 4, 4), np.float64)
    assert array.flags.writeable
    assert array.flags.aligned
    assert array.flags[f"{order}_CONTIGUOUS"]
    assert is_mappable(array)
    array[3, 1] = 2.5
    assert array.sum() == 2.5


@linux
def test_the_dtype_is_float64_and_a_length_makes_one_dimension() -> None:
    array = empty(np.int64(COUNT))
    assert (array.shape, array.dtype) == ((COUNT,), np.float64)
    assert is_mappable(array)


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        (COUNT - 1, "float64"),
        ((), "float64"),
        ((0, COUNT), "float64"),
        (COUNT, "O"),
        (COUNT, np.dtypes.StringDType()),
        (COUNT, "(2,)f8"),
    ],
)
def test_small_arrays_and_those_of_objects_are_in_ordinary_memory(shape: Any, dtype: Any) -> None:
    array, like = empty(shape, dtype), np.empty(shape, dtype)
    assert (array.shape, array.dtype) == (like.shape, like.dtype)
    assert not is_mappable(array)


@pytest.mark.parametrize(
    ("shape", "dtype", "error"),
    [(-1, "f8", ValueError), ((-MIB, -MIB), "f8", ValueError), (1.5, "f8", TypeError), (1, "x", TypeError)],
)
def test_wrong_shapes_and_dtypes_raise_as_with_numpy(shape: Any, dtype: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        np.empty(shape, dtype)
    with pytest.raises(error):
        empty(shape, dtype)


def test_more_memory_than_there_is_raises_memory_error_and_does_not_end_the_process() -> None:
    with pytest.raises(MemoryError):
        empty(1 << 60, "uint8")


@pytest.mark.parametrize("missing", ["memory", "descriptors", "memfd"])
def test_where_it_cannot_be_had_memory_is_ordinary(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> Any:
        raise OSError(24, "Too many open files")

    if missing == "memory":
        monkeypatch.setattr(shared_memory, "available_bytes", lambda: 512 * MIB)
    elif missing == "descriptors":
        monkeypatch.setattr(shared_memory, "create", full)
    else:
        monkeypatch.setattr("duetlink.base.runtime.mappable.supported", lambda: False)
    array = empty(COUNT)
    assert not is_mappable(array)
    assert sealed(array) is None


@linux
def test_empty_like_takes_shape_dtype_and_order() -> None:
    like = np.zeros((4, COUNT), "int16", order="F")
    array = empty_like(like)
    assert (array.shape, array.dtype, array.flags.f_contiguous) == ((4, COUNT), np.int16, True)
    assert is_mappable(array)
    assert empty_like(like.tolist()[0]).dtype == np.int64
    assert empty_like(like[:, ::2]).shape == (4, COUNT // 2)


@linux
def test_a_file_is_read_into_it_without_other_memory(tmp_path: Path) -> None:
    data = np.random.default_rng(1).random(COUNT)
    np.save(tmp_path / "data.npy", data)
    with open(tmp_path / "data.npy", "rb") as file:
        version = np.lib.format.read_magic(file)
        assert version == (1, 0)
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        array = empty(shape, dtype, "F" if fortran else "C")
        assert file.readinto(array) == array.nbytes
    np.testing.assert_array_equal(array, data)
    assert is_mappable(array)
    assert io.BytesIO(b"x" * 9).readinto(array) == 9


@linux
@pytest.mark.parametrize("dtype", ["float32", "complex128", "bool", "datetime64[s]", "i4,f8", "S7"])
def test_an_array_is_sealed_where_it_is(dtype: str) -> None:
    array = empty((3, MIB), dtype)
    array.view(np.uint8)[..., 1] = 1
    address = array.ctypes.data
    back = sealed(array)
    np.testing.assert_array_equal(back, array)
    assert back.dtype == array.dtype
    assert back.flags.aligned
    assert array.ctypes.data == address


@linux
def test_all_of_the_memory_in_another_form_is_sealed_too() -> None:
    np.testing.assert_array_equal(sealed(empty((4, COUNT)).reshape(2, -1).T), np.zeros((2 * COUNT, 2)))
    parts = sealed({"name": "run 1", "values": empty(COUNT), "more": np.arange(4)})
    assert parts["name"] == "run 1"
    assert parts["more"].tolist() == [0, 1, 2, 3]
    assert parts["values"].shape == (COUNT,)


@linux
def test_parts_of_it_and_ordinary_arrays_are_not() -> None:
    array = empty((4, COUNT))
    for value in (array[1:], array[:3], array[0], array[::-1], np.empty(COUNT), "text", {"a": 1}):
        assert sealed(value) is None
    assert sealed({"a": array, "b": np.empty(2 * COUNT)}) is None
    assert sealed([array, array]) is None
    array[0, 0] = 1  # still writable memory, and not sealed
    assert sealed(array)[0, 0] == 1


@linux
def test_bytes_that_an_array_hides_are_not_sealed_with_it() -> None:
    array = empty(MIB, "bool")
    array.view(np.uint8)[5] = 77
    assert sealed(array) is None


@linux
def test_a_change_after_sealing_is_not_in_the_sealed_bytes_and_a_second_share_has_it_by_a_copy() -> None:
    array = empty(COUNT)
    first = sealed(array)
    assert sealed(array) is not None
    array[7] = 1
    assert first[7] == 0
    assert sealed(array) is None


@linux
def test_a_tensor_has_it_by_numpy_or_by_a_dtype_of_torch() -> None:
    torch = pytest.importorskip("torch")
    tensor = empty((2, 4 * COUNT), torch.bfloat16)
    assert (tuple(tensor.shape), tensor.dtype) == ((2, 4 * COUNT), torch.bfloat16)
    tensor[1, 3] = 2.5
    back = sealed(tensor)
    assert back.dtype == torch.bfloat16
    assert back[1, 3] == 2.5
    like = empty_like(tensor)
    assert (like.shape, like.dtype) == (tensor.shape, tensor.dtype)
    assert sealed(torch.from_numpy(empty(COUNT))).dtype == torch.float64
    assert empty((3,), torch.int8).shape == (3,)


@linux
def test_an_arrow_array_and_a_table_of_one_column_have_it_by_numpy() -> None:
    array = empty(COUNT)
    array[3] = 1.5
    arrow = pa.array(array)
    back = sealed(arrow)
    assert back.equals(arrow)
    assert back[3].as_py() == 1.5
    ints = pa.Array.from_buffers(pa.int32(), 2 * COUNT, [None, pa.py_buffer(empty(2 * COUNT, "int32"))])
    assert sealed(pa.table({"x": ints})).num_rows == 2 * COUNT


@linux
def test_a_series_made_from_it_has_it_and_a_frame_of_several_columns_is_copied() -> None:
    array = empty(COUNT)
    array[3] = 1.5
    assert sealed(pd.Series(array, name="x", copy=False))[3] == 1.5
    assert sealed(pl.Series("x", empty(COUNT))).len() == COUNT
    assert sealed(pd.DataFrame(empty((3, COUNT)).T, copy=False)) is None


@linux
@pytest.mark.parametrize(
    ("error", "words"),
    [(errno.EBUSY, "forked by a library in C"), (errno.ENOMEM, "sealed: Cannot allocate memory$")],
)
def test_what_cannot_be_sealed_is_said_and_is_copied(
    error: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*args: object) -> Any:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(MappableMemory, "seal", busy)
    with pytest.warns(SharedByCopy, match=words):
        assert sealed(empty(COUNT)) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sealed(np.zeros(COUNT)) is None


@linux
def test_the_memory_ends_with_the_array() -> None:
    def open_now() -> int:
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    before = open_now()
    array = empty(COUNT)
    view = array[5:]
    del array
    assert open_now() == before + 1
    view[0] = 1
    del view
    assert open_now() == before
