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
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from duetlink.compute.worker.separation import is_array, parts


@contextlib.contextmanager
def read_only(given: Iterable[Any]) -> Iterator[list[Any]]:
    """Of what is given, all arrays, also those in containers, are read-only within: these."""
    locked = [
        array for array in parts(given) if is_array(array) and array.flags.writeable and _is_ours(array)
    ]
    for array in locked:
        array.flags.writeable = False
    try:
        yield locked
    finally:
        for array in locked:
            array.flags.writeable = True


def unlock(result: Any, locked: Sequence[Any]) -> None:
    """Let be written to what a step has made as views of arrays that were read-only for that step."""
    roots = {id(_root(array)) for array in locked}
    for array in parts([result]) if roots else ():
        if is_array(array) and not array.flags.writeable and id(_root(array)) in roots and _is_whole(array):
            with contextlib.suppress(ValueError):
                array.flags.writeable = True


def is_refusal(error: BaseException) -> bool:
    """Whether it says that something was to be written into what is read-only."""
    return isinstance(error, ValueError) and "read-only" in str(error)


def _is_ours(array: Any) -> bool:
    """Whether it can be made writable again."""
    root = _root(array)
    return is_array(root) or isinstance(root, memoryview | mmap.mmap | bytearray)


def _root(array: Any) -> Any:
    """What holds its memory."""
    while is_array(array) and array.base is not None:
        array = array.base
    return array


def _is_whole(array: Any) -> bool:
    """Whether no item stands for several, as what is broadcast does: NumPy makes that read-only itself."""
    return all(stride or count < 2 for stride, count in zip(array.strides, array.shape, strict=True))
