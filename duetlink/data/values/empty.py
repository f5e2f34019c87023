"""Arrays in memory that a peer of this host can map, and their encoded bodies, sealed where they are."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import math
import operator
import sys
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

from duetlink.base.runtime import descriptors, shared_memory
from duetlink.base.runtime.mappable import MappableMemory, SealedBody, memory_at
from duetlink.data.values.base import Encoded
from duetlink.errors import DescriptorsShort

if TYPE_CHECKING:
    import numpy as np

# A smaller array is copied in less time than the message takes that says where it is.
LEAST_BYTES = 1024 * 1024


class SharedByCopy(UserWarning):
    """The warning that an array of `empty` is shared by a copy of its memory."""


def empty(
    shape: SupportsIndex | Iterable[SupportsIndex], dtype: Any = float, order: Literal["C", "F"] = "C"
) -> Any:
    """Return an array as `numpy.empty` does, or a tensor for a dtype of torch, that can be shared in place.

    `share` seals its memory, and a peer on this host maps it, whatever its size: nothing is copied. **From
    then on the memory is copy-on-write here: writing to it raises nothing, and reaches neither the peer nor
    what is shared.** Share it again after a change; that copies it.

    Only the whole array is shared in place, by itself or in a container with little beside it: also as
    `torch.from_numpy(array)` or `pyarrow.array(array)`, or in another shape. A part of it is copied.

    All of its memory is taken at once, which takes part of the time that filling it would take. It is
    ordinary memory, from `numpy.empty` or `torch.empty`, below 1 MiB, for dtypes that hold
    Python objects, on systems without memfds (macOS, Windows), and if memory or descriptors are short. A
    process that is forked from this one has a view of its own: it sees what is written here until its own
    first write to a page, and its writes do not reach this process.

    Raises:
        TypeError, ValueError, MemoryError: as `numpy.empty`.
    """
    lengths = (shape,) if isinstance(shape, SupportsIndex) else tuple(shape)
    size = math.prod(map(operator.index, lengths))
    if "torch" in sys.modules and isinstance(dtype, sys.modules["torch"].dtype):
        return _empty_tensor(lengths, size, dtype)
    import numpy as np

    of = np.dtype(dtype)
    is_plain = not of.hasobject and of.subdtype is None
    cells = _cells(size * of.itemsize) if is_plain else None
    if cells is None:
        return np.empty(lengths, of, order)
    return np.ndarray(lengths, of, cells, order=order)


def empty_like(array: Any) -> Any:
    """Return `empty` of the shape and dtype of an array or tensor, and of its order if it is Fortran's."""
    if "torch" in sys.modules and isinstance(array, sys.modules["torch"].Tensor):
        return empty(tuple(array.shape), array.dtype)
    import numpy as np

    like = np.asarray(array)
    fortran = like.flags.f_contiguous and not like.flags.c_contiguous
    return empty(like.shape, like.dtype, "F" if fortran else "C")


def seal(encoded: Encoded) -> tuple[Encoded, SealedBody | None]:
    """Seal the memory of an encoded array of `empty` where it is. Return the value with its bytes there.

    Otherwise, the value as it is and None. Warns with SharedByCopy if another process prevents it.
    """
    for index, segment in enumerate(encoded.segments):
        if segment.nbytes < LEAST_BYTES:
            continue
        memory = memory_at(_address(segment), segment.nbytes)
        if memory is None:
            break
        header, trailer = encoded.segments[:index], encoded.segments[index + 1 :]
        if sum(piece.nbytes for piece in trailer) >= LEAST_BYTES:
            break
        try:
            sealed = memory.seal(b"".join(header), b"".join(trailer))
        except OSError as error:
            why = f"{error.strerror}"
            if error.errno == errno.EBUSY:
                why = "another process can write to it, such as one that was forked by a library in C"
            words = f"the array is shared by a copy of its memory, which cannot be sealed: {why}"
            warnings.warn(words, SharedByCopy, stacklevel=2)
            break
        if sealed is None:
            break
        return dataclasses.replace(encoded, segments=(sealed.body,)), sealed
    return encoded, None


def _cells(size_bytes: int) -> Any | None:
    """Return mappable memory; None if ordinary memory has to do."""
    if size_bytes < LEAST_BYTES or not shared_memory.has_room(size_bytes):
        return None
    with contextlib.suppress(OSError, DescriptorsShort):
        descriptors.check_room("an array")
        return MappableMemory(size_bytes).cells()
    return None


def _empty_tensor(shape: tuple[Any, ...], size: int, dtype: Any) -> Any:
    torch = sys.modules["torch"]
    cells = _cells(size * dtype.itemsize)
    if cells is None:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(cells, dtype=dtype).reshape(shape)


def _address(octets: memoryview) -> int:
    import numpy as np

    items: np.ndarray[Any, Any] = np.frombuffer(octets, np.uint8)
    return int(items.ctypes.data)
