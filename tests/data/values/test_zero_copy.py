"""Arrays are not copied: shown by addresses. And what may be written to, where."""

from __future__ import annotations

import gc
import mmap
import tempfile
import weakref
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from duetlink.data.values import Encoded, decode, encode, summarise
from duetlink.testing.values import joined


def addresses(encoded: Encoded) -> set[int]:
    return {np.frombuffer(segment, np.uint8).__array_interface__["data"][0] for segment in encoded.segments}


def address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


@pytest.mark.parametrize(
    "array",
    [
        np.arange(1000.0),
        np.asfortranarray(np.ones((30, 40))),
        np.arange(1000.0)[100:900],
        np.zeros(50, "M8[s]"),
    ],
    ids=["C", "Fortran", "slice", "times"],
)
def test_a_contiguous_array_is_sent_from_its_own_memory(array: np.ndarray[Any, Any]) -> None:
    assert address(array) in addresses(encode(array))


def test_a_memmap_is_sent_from_its_own_pages_and_arrives_as_an_array() -> None:
    with tempfile.NamedTemporaryFile() as file:
        mapped = np.memmap(file.name, dtype="f4", mode="w+", shape=(100,))
        encoded = encode({"a": mapped})
        assert address(mapped) in addresses(encoded)
        assert type(decode(joined(encoded))["a"]) is np.ndarray  # type: ignore[index]


def test_received_arrays_are_views_of_the_body() -> None:
    body = joined(encode({"a": np.arange(100), "b": [np.ones(7, order="F")], "t": torch.arange(50)}))
    value: Any = decode(body)
    memory = np.frombuffer(body, np.uint8)
    assert np.shares_memory(value["a"], memory)
    assert np.shares_memory(value["b"][0], memory)
    assert np.shares_memory(value["t"].numpy(), memory)
    value["a"][0] = 77
    assert decode(body)["a"][0] == 77  # type: ignore[index]


def test_segments_start_at_multiples_of_64() -> None:
    body = joined(encode([np.ones(3, np.int8), np.ones(5, np.int8), torch.ones(1)]))
    value: Any = decode(body)
    start = address(np.frombuffer(body, np.uint8))
    offsets = [address(value[0]) - start, address(value[1]) - start, value[2].data_ptr() - start]
    assert [offset % 64 for offset in offsets] == [0, 0, 0]
    assert offsets[0] < offsets[1] < offsets[2]


def test_arrays_are_writable_where_the_body_and_the_sender_s_array_are() -> None:
    frozen = np.arange(3)
    frozen.flags.writeable = False
    body = joined(encode([np.arange(3), frozen]))
    assert [array.flags.writeable for array in decode(body)] == [True, False]  # type: ignore[attr-defined]
    assert [array.flags.writeable for array in decode(bytes(body))] == [False, False]  # type: ignore[attr-defined]


def test_a_tensor_from_a_read_only_mapping_is_a_copy_that_can_be_written() -> None:
    body = joined(encode(torch.zeros(1000)))
    with tempfile.TemporaryFile() as file:
        file.write(body)
        file.flush()
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        tensor: Any = decode(memoryview(mapped))
        tensor += 1  # would be a segmentation fault in a view
        assert tensor.sum() == 1000


def test_a_body_at_an_odd_address_is_read() -> None:
    body = joined(encode({"a": np.arange(5.0), "t": torch.arange(5.0), "s": pa.array([1.5, 2.5])}))
    value: Any = decode(memoryview(bytearray(b"?") + body)[1:])
    assert value["a"].tolist() == [0, 1, 2, 3, 4]
    assert value["t"].tolist() == [0, 1, 2, 3, 4]
    assert value["s"].to_pylist() == [1.5, 2.5]


def test_tensors_are_sent_from_their_own_memory_in_any_dense_order() -> None:
    image = torch.rand(2, 3, 4, 5)
    last = image.to(memory_format=torch.channels_last)
    assert image.data_ptr() in addresses(encode(image))
    assert last.data_ptr() in addresses(encode(last))
    assert decode(joined(encode(last))).stride() == (60, 1, 15, 3)  # type: ignore[attr-defined]


def test_arrow_buffers_are_sent_and_read_without_a_copy() -> None:
    table = pa.table({"x": np.arange(10_000.0), "s": ["some text"] * 10_000})
    sent = addresses(encode(table))
    assert table["x"].chunk(0).buffers()[1].address in sent
    assert table["s"].chunk(0).buffers()[2].address in sent
    body = joined(encode(table))
    start = address(np.frombuffer(body, np.uint8))
    received: Any = decode(body)
    assert start < received["x"].chunk(0).buffers()[1].address < start + len(body)


def test_columns_of_pandas_and_polars_are_sent_from_their_own_memory() -> None:
    frame = pd.DataFrame({"x": np.arange(10_000.0), "y": np.arange(10_000), "s": ["text"] * 10_000})
    sent = addresses(encode(frame))
    assert address(frame["x"].to_numpy()) in sent
    assert address(frame["y"].to_numpy()) in sent
    assert pa.array(frame["s"].array).buffers()[2].address in sent
    columns = pl.DataFrame({"x": np.arange(10_000.0)})
    assert address(columns["x"].to_numpy()) in addresses(encode(columns))


def test_columns_of_pandas_are_received_as_views_and_can_be_written() -> None:
    body = joined(encode(pd.DataFrame({"x": np.arange(100.0), "n": pd.array(range(100), dtype="Int64")})))
    frame: Any = decode(body)
    assert np.shares_memory(frame["x"].to_numpy(), np.frombuffer(body, np.uint8))
    frame.loc[0, "x"] = 5.0
    assert frame.loc[0, "x"] == 5.0


def test_encoded_keeps_the_memory_alive() -> None:
    array = np.arange(1000.0)
    gone = weakref.ref(array)
    encoded = encode([array])
    del array
    gc.collect()
    assert gone() is not None
    assert decode(joined(encoded))[0][999] == 999.0  # type: ignore[index]
    del encoded
    assert gone() is None


def test_a_summary_looks_at_no_array() -> None:
    # 2 EB of nothing: to look at any of it would fail
    wide = np.broadcast_to(np.float64(1), (1 << 28, 1 << 30))
    summary = summarise([wide, torch.ones(1).expand(1 << 20, 1 << 20)])
    assert summary.kind == "list"
    assert summary.size_bytes > 1 << 61
