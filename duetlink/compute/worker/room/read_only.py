"""Write protection: NumPy arrays are read-only while a step runs that should not write to them.

Theory. The allow-lists say which operations write, and may be wrong: `scipy.signal.sweep_poly` changes the
angles that it is given. An object would then depend on steps that are not recorded as changing it. Each NumPy
array has a `writeable` flag, which compiled code respects as well. A step that fails because of the flag runs
again with copies, which are discarded. Tensors and frames have no such flag. They belong to one run, and if
one of them has changed, nothing of it is frozen for another run (`frozen.py`).
"""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Iterable, Sequence
from typing import Any

from duetlink.compute.worker.room.separation import contents, is_array


def lock(given: Iterable[Any]) -> list[Any]:
    """Make all arrays among the arguments and in their containers read-only. Returns these arrays."""
    locked = [
        array for array in contents(given) if is_array(array) and array.flags.writeable and _is_ours(array)
    ]
    for array in locked:
        array.setflags(write=False)
    return locked


def unlock(locked: Sequence[Any]) -> None:
    for array in locked:
        array.setflags(write=True)


def unlock_views(result: Any, unlocked: Sequence[Any]) -> None:
    """Make a step's results writable if they are views of arrays that were read-only during the step."""
    roots: set[int] = set()
    for array in contents((result,)) if unlocked else ():
        if is_array(array) and not array.flags.writeable and _is_whole(array):
            roots = roots or {id(_root(each)) for each in unlocked}
            if id(_root(array)) in roots:
                with contextlib.suppress(ValueError):
                    array.setflags(write=True)


def is_refusal(error: BaseException) -> bool:
    """True if NumPy raised this error at an attempt to write to a read-only array."""
    return isinstance(error, ValueError) and "read-only" in str(error)


def _is_ours(array: Any) -> bool:
    """True if NumPy will let the array become writable again, which depends on the owner of its memory."""
    root = _root(array)
    return is_array(root) or isinstance(root, memoryview | mmap.mmap | bytearray)


def _root(array: Any) -> Any:
    """Return the object that owns the array's memory."""
    kind = type(array)
    while type(array) is kind and array.base is not None:
        array = array.base
    return array


def _is_whole(array: Any) -> bool:
    """True unless items share memory, as in broadcast arrays, which NumPy itself makes read-only."""
    return all(stride or count < 2 for stride, count in zip(array.strides, array.shape, strict=True))
