"""Compare two encoded values, ignoring differences in the rounding of floating point numbers.

Theory. One program rounds differently in two processes: a sum depends on how many threads share it. So
floating point numbers agree within a tolerance, which is relative to the largest number of their array, since
a result near zero, after cancellation, has the error of its operands. Everything else must be identical:
types, shapes, integers, texts, missing items. Memory order, whether an array is writable and whether a tensor
requires gradients are ignored here.
"""

from __future__ import annotations

import itertools
import reprlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from duetlink.data.values import body
from duetlink.data.values.base import MAX_NODES, counted
from duetlink.data.values.reader import BodyReader, DecodeBudget, decode
from duetlink.data.values.registry import FOREIGN
from duetlink.data.values.schema_pb2 import Node
from duetlink.errors import DuetError, MalformedValue

if TYPE_CHECKING:
    import numpy as np

Pair = tuple[str, str]

# Relative tolerance, by the bytes of an item: far above the rounding error of a sum, and far below the effect
# of a missing step. The absolute tolerance covers sums that cancel out.
_RELATIVE = {1: 0.3, 2: 2e-2, 4: 1e-3}
_RELATIVE_OTHERS = 1e-6
_ABSOLUTE = {1: 1e-2, 2: 1e-3, 4: 1e-5}
_ABSOLUTE_OTHERS = 1e-9

_SEGMENTS = {"string_array": 3}  # segments per node; other arrays and long texts have one
_WITH_MEMORY = frozenset(
    ("array", "string_array", "tensor", "arrow", "polars", "long_text", "long_octets", "long_mutable_octets")
)
_LONGEST = 80  # characters of a value in a message


def difference(one: memoryview, other: memoryview) -> Pair | None:
    """Return the first difference as one line for each value; None if they agree.

    Raises:
        MalformedValue, LimitExceeded: these are no encoded values.
    """
    try:
        return None if one == other else _difference(one, other)
    except DuetError:
        raise
    except Exception as error:  # as in `decode`: libraries refuse nonsense in their own ways
        raise MalformedValue(f"two values cannot be compared: {type(error).__name__}: {error}") from error


def _difference(one: memoryview, other: memoryview) -> Pair | None:
    parts, others = list(_parts(one)), list(_parts(other))
    # the number of segments is known only for our own value types
    if len(parts) == len(others) and not any(_kind(node) == FOREIGN for node, _ in parts):
        for part, its_other in zip(parts, others, strict=True):
            if part == its_other:
                continue
            found = _within(part, its_other)
            if found is _AS_A_WHOLE:
                break
            if found is not None:
                return found
        else:
            return None
    return _shown(decode(one)), _shown(decode(other))


_Part = tuple[bytes, list[memoryview]]  # a node and its memory
_AS_A_WHOLE: Pair = ("", "")  # show the two values as a whole


def _parts(encoded: memoryview) -> Iterator[_Part]:
    header, segments = body.split(encoded, MAX_NODES)
    left = iter(segments)
    for node in header.nodes:
        kind = _kind(node)
        count = _SEGMENTS.get(kind, 1) if kind in _WITH_MEMORY else 0
        yield node, list(itertools.islice(left, count))


def _kind(node: bytes) -> str:
    return Node.FromString(node).WhichOneof("kind") or ""


def _within(one: _Part, other: _Part) -> Pair | None:
    """Compare two parts that are not the same bytes."""
    kind = _kind(one[0])
    compare = _COMPARE.get(kind)
    if compare is None or _kind(other[0]) != kind:
        return _AS_A_WHOLE
    return compare(_read(one), _read(other))


def _read(part: _Part) -> Any:
    node, segments = part
    return BodyReader((node,), segments, 1, DecodeBudget(0), False, False).value()


# -- by type -------------------------------------------------------------------------------------------------


def _numbers(one: Any, other: Any) -> Pair | None:
    """Compare two Python numbers or NumPy scalars."""
    import numpy as np

    return _arrays(np.asarray(one), np.asarray(other))


def _arrays(
    one: np.ndarray[Any, Any], other: np.ndarray[Any, Any], float_bytes: int | None = None
) -> Pair | None:
    """Compare two arrays. `float_bytes` is the width of a float before it was widened for NumPy."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return f"{one.dtype} {one.shape}", f"{other.dtype} {other.shape}"
    if one.dtype.names is not None:
        return _first(_arrays(one[name], other[name]) for name in one.dtype.names)
    if one.dtype.kind == "c":
        return _arrays(one.real, other.real, float_bytes) or _arrays(one.imag, other.imag, float_bytes)
    import numpy as np

    apart = _apart(one, other, float_bytes or one.dtype.itemsize)
    if not apart.any():
        return None
    index = tuple(map(int, np.unravel_index(int(apart.argmax()), apart.shape)))
    where = f" at {list(index)}" if index else ""
    return f"{_shown(one[index].item())}{where}", f"{_shown(other[index].item())}{where}"


def _first(found: Iterable[Pair | None]) -> Pair | None:
    return next(filter(None, found), None)


def _apart(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any], float_bytes: int) -> np.ndarray[Any, Any]:
    """Return a mask of the items that differ."""
    import numpy as np

    same = one == other
    if one.dtype.kind in "mM":
        same |= np.isnat(one) & np.isnat(other)
    if one.dtype.kind == "f":
        if one.dtype.itemsize < 8:  # so that a difference does not overflow
            one, other = one.astype(np.float64), other.astype(np.float64)
        same |= np.isnan(one) & np.isnan(other)
        finite = np.isfinite(one) & np.isfinite(other)
        largest = np.max(np.maximum(np.abs(one), np.abs(other)), where=finite, initial=0.0)
        absolute = _ABSOLUTE.get(float_bytes, _ABSOLUTE_OTHERS)
        allowed = absolute + largest * _RELATIVE.get(float_bytes, _RELATIVE_OTHERS)
        with np.errstate(all="ignore"):
            same |= finite & (np.abs(one - other) <= allowed)
    return np.asarray(~same)


def _tensors(one: Any, other: Any) -> Pair | None:
    import torch

    kinds = [f"{tensor.dtype} {tuple(tensor.shape)}" for tensor in (one, other)]
    if kinds[0] != kinds[1]:
        return kinds[0], kinds[1]
    float_bytes = one.element_size() // (2 if one.is_complex() else 1)
    if float_bytes < 4 and (one.is_floating_point() or one.is_complex()):  # most of which NumPy lacks
        wide = torch.complex64 if one.is_complex() else torch.float32
        one, other = one.to(wide), other.to(wide)
    return _arrays(one.detach().numpy(), other.detach().numpy(), float_bytes)


def _streams(one: Any, other: Any) -> Pair | None:
    """Compare two objects of Arrow or Polars."""
    import pyarrow as pa

    if isinstance(one, pa.Schema) or isinstance(other, pa.Schema):
        return _shown(one), _shown(other)
    one, other = _table(one), _table(other)
    if not one.schema.equals(other.schema, check_metadata=True) or one.num_rows != other.num_rows:
        return _table_words(one), _table_words(other)
    return _first(map(_columns, one.column_names, one.columns, other.columns))


def _table(obj: Any) -> Any:
    import pyarrow as pa

    if type(obj).__module__.startswith("polars"):
        return (obj.to_frame() if hasattr(obj, "to_frame") else obj).to_arrow()
    if isinstance(obj, pa.RecordBatch):
        return pa.Table.from_batches([obj])
    if isinstance(obj, (pa.Array, pa.ChunkedArray)):
        return pa.table({"": obj})
    return pa.table({"": pa.repeat(obj, 1)}) if isinstance(obj, pa.Scalar) else obj


def _table_words(table: Any) -> str:
    fields = ", ".join(f"{field.name} {field.type}" for field in table.schema)
    return f"{counted(table.num_rows, 'row')} of {fields}"


def _columns(name: str, one: Any, other: Any) -> Pair | None:
    if _columns_agree(_in_one(one), _in_one(other)):
        return None
    of = f" in {name!r}" if name else ""
    return f"{_shown(one.to_pylist())}{of}", f"{_shown(other.to_pylist())}{of}"


def _in_one(column: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _columns_agree(one: Any, other: Any) -> bool:
    import pyarrow as pa

    kinds = pa.types
    if len(one) != len(other) or not one.is_null().equals(other.is_null()):
        return False
    if kinds.is_floating(one.type):
        numbers = [column.drop_null().to_numpy(zero_copy_only=False) for column in (one, other)]
        return _arrays(*numbers) is None
    if kinds.is_dictionary(one.type):
        return _columns_agree(one.dictionary_decode(), other.dictionary_decode())
    if kinds.is_struct(one.type):
        return all(map(_columns_agree, one.flatten(), other.flatten()))
    if kinds.is_list(one.type) or kinds.is_large_list(one.type) or kinds.is_fixed_size_list(one.type):
        import pyarrow.compute as pc

        lengths = [pc.list_value_length(column) for column in (one, other)]
        return bool(lengths[0].equals(lengths[1])) and _columns_agree(one.flatten(), other.flatten())
    return bool(one.equals(other))


_COMPARE: dict[str, Callable[[Any, Any], Pair | None]] = {
    "real": _numbers,
    "complex": _numbers,
    "scalar": _numbers,
    "array": _arrays,
    "tensor": _tensors,
    "arrow": _streams,
    "polars": _streams,
}


def _shown(obj: Any) -> str:
    """Return an object in one line."""
    text = reprlib.repr(obj) if type(obj).__module__ == "builtins" else repr(obj)
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
