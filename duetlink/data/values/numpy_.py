"""NumPy arrays and scalars: the array's memory is the segment, in C or Fortran order."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from duetlink.data.codecs.element import BY_NAME
from duetlink.data.values import dtype as dtypes
from duetlink.data.values import reach
from duetlink.data.values.base import Reader, Writer
from duetlink.data.values.numpy_shown import shown
from duetlink.data.values.schema_pb2 import Array, Node, ObjectArray, Scalar, StringArray
from duetlink.errors import MalformedValue

_MOST_OBJECTS = 100_000  # so many items take about a second to write and to read
_MOST_DIMENSIONS = 32  # the limit in every version of NumPy
_REMEDIES = {
    np.ma.MaskedArray: "send its .data and its .mask, or .filled(…)",
    np.matrix: "send np.asarray(…) of it",
    np.recarray: "send .view(np.ndarray) of it",
}


class NumpyType:
    def describe(self, obj: Any) -> str:
        if isinstance(obj, np.ndarray):
            name = obj.dtype.name if obj.dtype.names is None else f"{len(obj.dtype.names)} fields"
            return f"{name} {obj.shape}"
        return ""

    def elements(self, obj: Any) -> int | None:
        if not isinstance(obj, (np.ndarray, np.generic)):
            return 1
        each = {"S": 1, "U": 4, "V": 8}.get(
            obj.dtype.kind
        )  # characters; a record counts as numbers of 8 bytes
        if obj.dtype.kind in "OT":
            return None
        items = int(obj.size) or max(
            1, sum(1 for count in obj.shape if count)
        )  # an empty array still has a shape
        return items * (1 if each is None else max(1, -(-obj.dtype.itemsize // each)))

    def write(self, obj: Any, writer: Writer) -> None:
        if type(obj) is np.ndarray and obj.dtype == object:
            _write_objects(obj, writer)
        elif type(obj) in (np.ndarray, np.memmap):
            write_array(np.asarray(obj), writer)
        elif type(obj) is np.str_:
            # not str(obj), which drops NULs at the end
            writer.node(numpy_text=obj.encode("utf-8", "surrogatepass"))
        elif type(obj) is np.bytes_:
            writer.node(numpy_octets=bytes(obj))
        elif isinstance(obj, np.generic):
            dtype = _dtype(obj, obj.dtype, writer)
            writer.node(scalar=Scalar(dtype=dtype, data=bytes(memory(np.asarray(obj), writer.plain_nan))))
        else:
            remedy = next((text for kind, text in _REMEDIES.items() if isinstance(obj, kind)), None)
            raise writer.unsupported(obj, remedy or "send np.asarray(…) of it, or its data")

    def read(self, node: Node, reader: Reader) -> object:
        match node.WhichOneof("kind"):
            case "array":
                return _read_array(node.array, reader)
            case "string_array":
                return _read_strings(node.string_array, reader)
            case "object_array":
                return _read_objects(node.object_array, reader)
            case "scalar":
                dtype, work = dtypes.from_wire(node.scalar.dtype)
                reach.check((), len(node.scalar.data), work)
                if dtype.itemsize != len(node.scalar.data):
                    raise MalformedValue(f"a {dtype.name} of {len(node.scalar.data)} bytes")
                scalar: np.ndarray[Any, Any] = np.ndarray((), dtype, bytearray(node.scalar.data) or None)
                _check_text(scalar)
                return scalar[()]
            case "numpy_text":
                return np.str_(node.numpy_text.decode("utf-8", "surrogatepass"))
            case _:
                return np.bytes_(node.numpy_octets)


def write_array(array: np.ndarray[Any, Any], writer: Writer, *, keep_read_only: bool = True) -> None:
    """Write exactly an ndarray; raise UnsupportedValue for dtypes that hold Python objects."""
    read_only = keep_read_only and not array.flags.writeable
    if isinstance(array.dtype, np.dtypes.StringDType):
        _write_strings(array, writer, read_only)
        return
    dtype = _dtype(array, array.dtype, writer)
    if not array.nbytes:
        try:
            reach.check(array.shape, 0)
        except MalformedValue as error:
            raise writer.unsupported(array, f"{error}, which no receiver takes; send its shape") from None
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    element, row_bytes = _kind(array, fortran)
    shape = array.shape[::-1] if fortran else array.shape
    is_float = array.dtype.kind == "f" and element == array.dtype.name
    coded = writer.coded(element, shape, lambda: memory(array, writer.plain_nan)) if is_float else None
    writer.node(
        array=Array(
            dtype=dtype, shape=array.shape, fortran=fortran, read_only=read_only, coded=coded is not None
        )
    )
    if coded is not None:
        writer.segment(len(coded), lambda: [memoryview(coded)])
    else:
        writer.segment(
            array.nbytes, lambda: [memory(array, writer.plain_nan)], element=element, row_bytes=row_bytes
        )


def _kind(array: np.ndarray[Any, Any], fortran: bool) -> tuple[str, int]:
    """Return the name of the element for codecs, and the bytes of a row in memory order."""
    outermost = array.shape[-1 if fortran else 0] if array.ndim else 1
    row_bytes = array.nbytes // outermost if array.nbytes else 0
    name = "int64" if array.dtype.kind in "mM" else array.dtype.name
    known = name in BY_NAME and array.dtype.isnative
    return (name if known else "uint8"), row_bytes


def memory(array: np.ndarray[Any, Any], plain_nan: bool = False) -> memoryview:
    """Return the array's bytes in C order, or in Fortran order if it is in that.

    Copies only if it is in neither order, or if its memory holds bytes that it does not show.
    """
    if array.nbytes == 0:
        return memoryview(b"")
    if array.flags.f_contiguous and not array.flags.c_contiguous:
        array = array.T
    octets: Any = shown(np.ascontiguousarray(array).reshape(-1), plain_nan=plain_nan).view(np.uint8)
    return memoryview(octets)


def _dtype(obj: object, dtype: np.dtype[Any], writer: Writer) -> Any:
    try:
        return dtypes.to_wire(dtype)
    except dtypes.DTypeRefused as error:
        raise writer.unsupported(obj, str(error)) from None


def _read_array(node: Array, reader: Reader) -> np.ndarray[Any, Any]:
    dtype, work = dtypes.from_wire(node.dtype)
    if dtype.subdtype is not None:
        raise MalformedValue("an array came with a subarray dtype, which no array has")
    shape = tuple(node.shape)
    # Python integers do not overflow; numpy refuses what does not fit its own
    size = dtype.itemsize
    for length in shape:
        size *= length
    reach.check(shape, size, work)
    view = reader.decoded(size) if node.coded else reader.segment()
    if size != len(view):
        raise MalformedValue(f"an array of {size:,} bytes came with {len(view):,}")
    array: np.ndarray[Any, Any]
    array = np.ndarray(shape, dtype, view if size else None, order="F" if node.fortran else "C")
    if size:
        _check_text(array.T if node.fortran else array)
    if node.read_only or (size and view.readonly):
        array.flags.writeable = False
    return array


def _check_text(array: np.ndarray[Any, Any]) -> None:
    """Refuse fixed text with invalid code points: reading such an item crashes CPython."""
    dtype = array.dtype
    if dtype.names is not None:
        for name in dtype.names:
            _check_text(array[name])
    elif dtype.kind == "U" and array.size and dtype.itemsize:
        order = ">" if dtype.str.startswith(">") else "<"
        numbers = (
            np.ascontiguousarray(array).reshape(-1).view(f"{order}u4")
        )  # a copy for a field, which has gaps
        if int(numbers.max()) > sys.maxunicode:
            raise MalformedValue("an array's text has characters that do not exist")


# -- StringDType: text of any length, in an arena inside NumPy, which is joined and copied ------------------


def _write_strings(array: np.ndarray[Any, Any], writer: Writer, read_only: bool) -> None:
    dtype: Any = array.dtype
    has_na = hasattr(dtype, "na_object")
    writer.node(
        string_array=StringArray(
            shape=array.shape, has_na=has_na, strict=not dtype.coerce, read_only=read_only
        )
    )
    if has_na:
        writer.value(dtype.na_object, ".dtype.na_object")
    items = array.reshape(-1).tolist()
    missing = np.array([type(item) is not str for item in items], dtype=np.bool_)
    texts = [b"" if type(item) is not str else item.encode("utf-8") for item in items]
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    joined = b"".join(texts)
    writer.segment(ends.nbytes, lambda: [memory(ends)], element="int64", row_bytes=ends.itemsize)
    writer.segment(len(joined), lambda: [memoryview(joined)])
    writer.segment(missing.nbytes, lambda: [memory(missing)])


def _read_strings(node: StringArray, reader: Reader) -> np.ndarray[Any, Any]:
    options: dict[str, Any] = {"coerce": not node.strict}
    if node.has_na:
        options["na_object"] = reader.value()
        if type(options["na_object"]).__name__ not in ("NoneType", "float", "str", "NAType"):
            raise MalformedValue("a string dtype has an unknown mark for missing values")
    dtype = np.dtypes.StringDType(**options)
    reach.check(node.shape, 0 if 0 in node.shape else math.prod(node.shape))
    view, joined, missing = reader.segment(), bytes(reader.segment()), reader.segment()
    if len(view) % 8:
        raise MalformedValue(f"{len(view)} bytes of offsets")
    ends = np.frombuffer(view, "<i8").tolist()
    starts = [0, *ends[:-1]]
    if len(missing) != len(ends) or (ends or [0])[-1] != len(joined) or starts[0] != 0:
        raise MalformedValue("the strings of an array do not fit its offsets")
    if any(start > end for start, end in zip(starts, ends, strict=bool(ends))):
        raise MalformedValue("the offsets of strings go backwards")
    items = list(_strings(joined, starts, ends, missing, options))
    array: np.ndarray[Any, Any] = np.array(items, dtype=dtype).reshape(tuple(node.shape))
    array.flags.writeable = not node.read_only
    return array


def _strings(
    joined: bytes, starts: list[int], ends: list[int], missing: memoryview, options: dict[str, Any]
) -> Iterable[object]:
    for start, end, gone in zip(starts, ends, missing, strict=False):
        yield options["na_object"] if gone else joined[start:end].decode("utf-8")


# -- arrays of Python objects, which travel as a list -------------------------------------------------------


def _write_objects(array: np.ndarray[Any, Any], writer: Writer) -> None:
    if array.size > _MOST_OBJECTS:
        raise writer.unsupported(
            array,
            f"dtype object with {array.size:,} items, which travel one by one; convert it with .astype(str) "
            "or to a number dtype, or put it in a pandas frame whose columns have dtypes of their own",
        )
    writer.node(object_array=ObjectArray(shape=array.shape))
    writer.value(array.reshape(-1).tolist(), "")


def _read_objects(node: ObjectArray, reader: Reader) -> np.ndarray[Any, Any]:
    shape = tuple(node.shape)
    reach.check(shape, 0)
    items = reader.expect(list)
    if len(shape) > _MOST_DIMENSIONS or len(items) != math.prod(shape):
        raise MalformedValue(f"{len(items):,} objects came for an array of shape {shape[:8]}")
    array: np.ndarray[Any, Any] = np.empty(len(items), dtype=object)
    for index, item in enumerate(items):  # a list that is an item stays one
        array[index] = item
    return array.reshape(shape)


HANDLER = NumpyType()
