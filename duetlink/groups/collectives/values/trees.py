"""Values of collective operations as flat arrays, and back: arrays, tensors, numbers, and trees of them.

A leaf is a NumPy array or number, a torch tensor, an Arrow array of numbers without nulls, or a Python
number. Dicts with text keys, lists and tuples hold leaves. All leaves of one element become one flat array,
so that a state dict of hundreds of tensors is one or two operations. The only leaf of its element is not
copied if its memory is contiguous.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from duetlink.base.wire import json_
from duetlink.data.codecs.element import BY_NAME, Element
from duetlink.errors import LimitExceeded, MissingLibrary, RemoteProtocolError, UnsupportedValue
from duetlink.groups.collectives.execution.elements import Array

MAX_DEPTH = 32
MAX_LEAVES = 1_000_000
MAX_FORM_BYTES = 8 * 1024 * 1024
MAX_DIMENSIONS = 64  # of NumPy and of torch

# the type of a leaf, which it has again at the receiver
_NUMPY, _TORCH, _ARROW, _INT, _FLOAT, _COMPLEX, _BOOL = "n", "t", "a", "i", "f", "c", "b"
_NUMBERS = {bool: (_BOOL, "bool"), int: (_INT, "int64"), float: (_FLOAT, "float64")}
_NUMBERS |= {complex: (_COMPLEX, "complex128")}
_NAMED = 3  # the number of arrays whose forms errors list
_KINDS = {kind for kind, _ in _NUMBERS.values()} | {_NUMPY, _TORCH, _ARROW}


@dataclass(frozen=True, slots=True)
class Leaf:
    """One array of a tree."""

    kind: str
    element: Element
    shape: tuple[int, ...]
    array: Array | None = None  # of the element's storage type; None if only the form is known
    write: Callable[[Array], None] | None = None  # overwrites the leaf's items; None if it cannot be changed
    is_memory: bool = False  # `array` is the value's own memory

    @property
    def items(self) -> int:
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        return self.items * self.element.size_bytes


@dataclass(frozen=True, slots=True)
class Tree:
    """A value taken apart: its leaves from left to right, and its structure as JSON."""

    structure: Any
    leaves: tuple[Leaf, ...]

    @property
    def elements(self) -> list[Element]:
        """The elements of the leaves, in the order of their first leaf."""
        return list(dict.fromkeys(leaf.element for leaf in self.leaves))

    @property
    def size_bytes(self) -> int:
        return sum(leaf.size_bytes for leaf in self.leaves)

    @property
    def is_one_block(self) -> bool:
        """True if the value is one array whose own memory can be worked in."""
        if len(self.leaves) != 1 or self.leaves[0].array is None:
            return False
        leaf, array = self.leaves[0], self.leaves[0].array
        return leaf.is_memory and array.flags.writeable and array.flags.c_contiguous

    @property
    def what(self) -> str:
        """The form for people and for the comparison of calls: `float32[3, 4]`.

        For several arrays it lists the first three, and digests of the keys and of all shapes, which show
        what differs. Keys themselves are not shown to other members.
        """
        forms = [f"{leaf.element.name}{list(leaf.shape)}" for leaf in self.leaves]
        if self.structure == 0:
            return forms[0]
        more = ", …" if len(forms) > _NAMED else ""
        return (
            f"{len(forms)} arrays ({', '.join(forms[:_NAMED])}{more}) of {self.size_bytes:,} bytes, "
            f"keys {_digest(self.structure)}, shapes {_digest(forms)}"
        )

    def flat(self, element: Element, *, copy: bool = False) -> Array:
        """Return all items of one element; the leaf's own memory if it is the only one and contiguous."""
        arrays = [leaf.array for leaf in self.leaves if leaf.element == element]
        if len(arrays) == 1 and arrays[0] is not None and not copy and arrays[0].flags.c_contiguous:
            return arrays[0].reshape(-1)
        return np.concatenate([array.reshape(-1) for array in arrays if array is not None])

    def with_items(self, flats: Mapping[str, Array]) -> object:
        """Build a value of this form from flat arrays by element name; it may share their memory."""
        pieces = [_build(leaf, piece) for leaf, piece in self._pieces(flats)]
        return _assemble(self.structure, iter(pieces))

    def write(self, flats: Mapping[str, Array]) -> None:
        for leaf, piece in self._pieces(flats):
            assert leaf.write is not None
            leaf.write(piece)

    def _pieces(self, flats: Mapping[str, Array]) -> list[tuple[Leaf, Array]]:
        places = dict.fromkeys(flats, 0)
        found = []
        for leaf in self.leaves:
            name = leaf.element.name
            start = places[name]
            places[name] += leaf.items
            found.append((leaf, flats[name][start : start + leaf.items].reshape(leaf.shape)))
        return found

    def to_wire(self) -> bytes:
        """Encode the form alone, without items."""
        leaves = [[leaf.kind, leaf.element.name, *leaf.shape] for leaf in self.leaves]
        return json.dumps([self.structure, leaves], separators=(",", ":")).encode()

    @classmethod
    def from_wire(cls, data: bytes, limit_bytes: int) -> Tree:
        """Decode the form of a tree whose items take up no more than `limit_bytes`.

        Raises:
            RemoteProtocolError: it is not a form.
            LimitExceeded: the form, or a value of it, is too large.
        """
        if len(data) > MAX_FORM_BYTES:
            raise LimitExceeded(f"the form of a value takes {len(data)} bytes; {MAX_FORM_BYTES} are allowed")
        try:
            structure, found = json_.read(data, tuple[Any, list[list[Any]]])
            leaves = tuple(_leaf_from_wire(*each) for each in found)
            used = _count(structure, 0)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise RemoteProtocolError(f"the form of a value does not parse: {type(error).__name__}") from None
        if used != len(leaves) or used > MAX_LEAVES:
            raise RemoteProtocolError(f"a form of {used} places for {len(leaves)} arrays")
        size_bytes = sum(leaf.size_bytes for leaf in leaves)
        if size_bytes > limit_bytes:
            raise LimitExceeded(f"a value of {size_bytes:,} bytes; this group takes {limit_bytes:,} at once")
        return cls(structure, leaves)


def take_apart(value: object) -> Tree:
    """Take a value apart into a tree.

    Raises:
        UnsupportedValue: something in it is neither an array of numbers nor a dict, list or tuple.
    """
    leaves: list[Leaf] = []
    structure = _take_apart(value, leaves, 0)
    return Tree(structure, tuple(leaves))


def to_bytes(tree: Tree) -> Array:
    """Return the items of all leaves as bytes, one element after the other."""
    if len(tree.elements) == 1:
        return tree.flat(tree.elements[0]).view(np.uint8)
    flats = [tree.flat(element).view(np.uint8) for element in tree.elements]
    return np.concatenate(flats) if flats else np.empty(0, np.uint8)


def from_bytes(tree: Tree, data: Array) -> dict[str, Array]:
    """Split what `to_bytes` made, by element name; views of `data` where its memory is aligned."""
    flats = {}
    start = 0
    for element in tree.elements:
        stop = start + sum(leaf.size_bytes for leaf in tree.leaves if leaf.element == element)
        piece = data[start:stop]
        if element.name == "bool":
            piece = (piece != 0).view(np.uint8)  # a peer may have sent bytes that are no bool
        aligned = piece.ctypes.data % element.size_bytes == 0
        flats[element.name] = (piece if aligned else piece.copy()).view(element.storage)
        start = stop
    return flats


def _digest(value: object) -> str:
    return hashlib.blake2b(repr(value).encode(), digest_size=4).hexdigest()


def _take_apart(value: object, leaves: list[Leaf], depth: int) -> Any:
    """Encode the structure: 0 is a leaf; lists and tuples are ["l", …] and ["u", …], dicts ["d", keys, …]."""
    if depth > MAX_DEPTH:
        raise UnsupportedValue(f"a value nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise UnsupportedValue("a dict whose keys are not all text cannot be used by a group")
        return ["d", list(value), *(_take_apart(each, leaves, depth + 1) for each in value.values())]
    if isinstance(value, list | tuple):
        kind = "u" if isinstance(value, tuple) else "l"
        return [kind, *(_take_apart(each, leaves, depth + 1) for each in value)]
    leaves.append(_leaf(value))
    return 0


def _count(structure: Any, depth: int) -> int:
    """Count the leaves of a structure. Raises ValueError if it is malformed."""
    if structure == 0 and type(structure) is int:
        return 1
    if depth > MAX_DEPTH or not isinstance(structure, list) or not structure:
        raise ValueError
    kind, *inside = structure
    if kind == "d":
        keys, *inside = inside
        if not isinstance(keys, list) or len(set(keys)) != len(inside):
            raise ValueError
        if not all(isinstance(key, str) for key in keys):
            raise ValueError
    elif kind not in ("l", "u"):
        raise ValueError
    return sum(_count(each, depth + 1) for each in inside)


def _assemble(structure: Any, pieces: Any) -> object:
    if structure == 0:
        return next(pieces)
    kind, *inside = structure
    if kind == "d":
        keys, *inside = inside
        return {key: _assemble(each, pieces) for key, each in zip(keys, inside, strict=True)}
    found = [_assemble(each, pieces) for each in inside]
    return tuple(found) if kind == "u" else found


def _leaf(value: object) -> Leaf:
    if type(value) in _NUMBERS:
        kind, name = _NUMBERS[type(value)]
        try:
            array = np.array(value, BY_NAME[name].storage)
        except OverflowError:
            raise UnsupportedValue(f"{value} does not fit 64 bits; use a float") from None
        return Leaf(kind, BY_NAME[name], (), array)
    if isinstance(value, np.ndarray | np.generic):
        return _numpy_leaf(value)
    torch, pyarrow = sys.modules.get("torch"), sys.modules.get("pyarrow")
    if torch is not None and isinstance(value, torch.Tensor):
        return _torch_leaf(value, torch)
    if pyarrow is not None and isinstance(value, pyarrow.Array | pyarrow.ChunkedArray):
        return _arrow_leaf(value)
    state = "; of a model give its state_dict()" if hasattr(value, "state_dict") else ""
    raise UnsupportedValue(
        f"{type(value).__name__} cannot be used by a group; give NumPy arrays, torch tensors, Arrow arrays, "
        f"numbers, or dicts, lists and tuples of them{state}"
    )


def _numpy_leaf(value: Any) -> Leaf:
    element = BY_NAME.get(value.dtype.name)
    if element is None or value.dtype.kind not in "biufc":
        raise UnsupportedValue(
            f"items of dtype {value.dtype} cannot be used by a group; convert them, for example by "
            ".astype(float)"
        )
    array = np.asarray(value)
    native = array.astype(element.storage, copy=False)  # an array in the other byte order is copied

    def write(items: Array) -> None:
        array[...] = items

    changeable = isinstance(value, np.ndarray) and array.flags.writeable
    return Leaf(_NUMPY, element, array.shape, native, write if changeable else None, native is array)


def _torch_leaf(value: Any, torch: Any) -> Leaf:
    name = str(value.dtype).removeprefix("torch.")
    if name not in BY_NAME or value.layout is not torch.strided:
        raise UnsupportedValue(f"a tensor of {value.dtype}, {value.layout} cannot be used by a group")
    if value.device.type == "meta":
        raise UnsupportedValue("a tensor on the meta device has no data: give one with content")
    element = BY_NAME[name]
    tensor = value.detach().cpu().resolve_conj().resolve_neg()
    if element.name != element.storage.name:  # NumPy lacks this element: take its bits
        tensor = tensor.view({1: torch.uint8, 2: torch.int16}[element.size_bytes])
    array = tensor.numpy().view(element.storage)

    def write(items: Array) -> None:
        with torch.no_grad():
            value.copy_(_tensor(items, element))

    own = value.device.type == "cpu" and tensor.data_ptr() == value.data_ptr()
    return Leaf(_TORCH, element, tuple(value.shape), array, write, own)


def _arrow_leaf(value: Any) -> Leaf:
    name = {"halffloat": "float16", "float": "float32", "double": "float64"}.get(
        str(value.type), str(value.type)
    )
    element = BY_NAME.get(name)
    if element is None or value.null_count:
        raise UnsupportedValue(
            f"an Arrow array of {value.type} with {value.null_count} nulls cannot be used by a group; "
            "numbers without nulls can"
        )
    return Leaf(
        _ARROW, element, (len(value),), np.asarray(value.to_numpy(zero_copy_only=False), element.storage)
    )


def _build(leaf: Leaf, items: Array) -> object:
    if leaf.kind == _NUMPY:
        return items
    if leaf.kind == _TORCH:
        return _tensor(items, leaf.element)
    if leaf.kind == _ARROW:
        import pyarrow

        return pyarrow.array(items)
    return items.item()


def _tensor(items: Array, element: Element) -> Any:
    try:
        import torch
    except ImportError:
        raise MissingLibrary("a tensor arrived, and torch is not installed here") from None
    if not items.flags.writeable:
        items = items.copy()
    if element.name == element.storage.name:
        return torch.from_numpy(items)
    bits = items.view(np.int16 if element.size_bytes == 2 else np.uint8)
    return torch.from_numpy(bits).view(getattr(torch, element.name))


def _leaf_from_wire(kind: str, name: str, *shape: int) -> Leaf:
    if kind not in _KINDS or len(shape) > MAX_DIMENSIONS:
        raise ValueError
    if not all(type(size) is int and 0 <= size < 2**48 for size in shape):
        raise ValueError
    if kind not in (_NUMPY, _TORCH) and len(shape) != (kind == _ARROW):
        raise ValueError
    return Leaf(kind, BY_NAME[name], shape)
