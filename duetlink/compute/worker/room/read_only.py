"""While a step runs that is there to read, no array that it is given can be written to.

Theory. The lists say which operations write, and may be wrong: `scipy.signal.sweep_poly` changes the angles
that it is given. What an object is would then depend on steps that do not say that they change it. NumPy
keeps a flag for that in each array, which compiled code asks for as well. Whoever is refused by it gets
copies, which are thrown away. Tensors and frames have no such flag: a run has them for itself, and nothing is
frozen for another run where one of them has changed (`frozen.py`).
"""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Iterable, Sequence
from typing import Any

from duetlink.compute.worker.room.separation import is_array, parts


def lock(given: Iterable[Any]) -> list[Any]:
    """Make all arrays of what is given read-only, also those in containers: these, for `unlock`."""
    locked = [
        array for array in parts(given) if is_array(array) and array.flags.writeable and _is_ours(array)
    ]
    for array in locked:
        array.setflags(write=False)
    return locked


def unlock(locked: Sequence[Any]) -> None:
    """Make them writable again."""
    for array in locked:
        array.setflags(write=True)


def unlock_views(result: Any, unlocked: Sequence[Any]) -> None:
    """Let be written to what a step has made as views of arrays that were read-only for that step."""
    roots: set[int] = set()
    for array in parts((result,)) if unlocked else ():
        if is_array(array) and not array.flags.writeable and _is_whole(array):
            roots = roots or {id(_root(each)) for each in unlocked}
            if id(_root(array)) in roots:
                with contextlib.suppress(ValueError):
                    array.setflags(write=True)


def is_refusal(error: BaseException) -> bool:
    """Whether it says that something was to be written into what is read-only."""
    return isinstance(error, ValueError) and "read-only" in str(error)


def _is_ours(array: Any) -> bool:
    """Whether it can be made writable again."""
    root = _root(array)
    return is_array(root) or isinstance(root, memoryview | mmap.mmap | bytearray)


def _root(array: Any) -> Any:
    """What holds its memory."""
    kind = type(array)
    while type(array) is kind and array.base is not None:
        array = array.base
    return array


def _is_whole(array: Any) -> bool:
    """Whether no item stands for several, as what is broadcast does: NumPy makes that read-only itself."""
    return all(stride or count < 2 for stride, count in zip(array.strides, array.shape, strict=True))
