"""Rules of sizes for arrays, tensors and columns alike.

A rule returns the mask of a call's result. Its docstring describes the results of the operations that have
this rule in `lists/sizes.toml`.
"""

from __future__ import annotations

from typing import Any

from duetlink.compute.operations.sizes.call import MockCall
from duetlink.compute.operations.sizes.mask import EVERY, NESTED, PUBLIC, UNCOUNTED


def unknown(call: MockCall) -> int:
    """Every length is private; the rule for operations in no list."""
    return UNCOUNTED if isinstance(call.made, list) else EVERY


def uncounted(call: MockCall) -> int:
    """Even the number of axes is private; for a tuple of results, the axes of each."""
    is_of_call = isinstance(call.made, tuple) and not call.operation.startswith("@")
    return EVERY | NESTED if is_of_call else UNCOUNTED


def counted(call: MockCall) -> int:
    """Constants fix the number of parts; their lengths follow from the arguments' sizes."""
    return PUBLIC if fixed(call) == PUBLIC else EVERY


def fixed(call: MockCall) -> int:
    """The sizes follow from those of all arguments, not from their values."""
    return EVERY if call.all_lengths or call.has_private_counts else PUBLIC


def shaped(call: MockCall) -> int:
    """The sizes follow from those of the first argument and from constants, such as the shape in
    `reshape`.
    """
    if call.lengths == PUBLIC and call.first_only:
        return PUBLIC
    return UNCOUNTED if type(call.made) in (list, tuple) else EVERY  # not for named ones


def same(call: MockCall) -> int:
    """The result, or each part of it, has the shape of the first argument."""
    first = call.lengths
    if first == PUBLIC:
        return PUBLIC if not call.has_private_counts else EVERY
    ndim = getattr(call.mocks[0], "ndim", None)
    parts = call.made if isinstance(call.made, (tuple, list)) else (call.made,)
    return first if all(getattr(part, "ndim", None) == ndim for part in parts) else EVERY


def alike(call: MockCall) -> int:
    """Elementwise: the result has the broadcast shape of the arguments."""
    found = call.all_lengths
    if found == PUBLIC or not isinstance(call.made, (tuple, list)):
        return found
    ndims = {getattr(part, "ndim", None) for part in call.made}
    return found if len(ndims) == 1 else EVERY


def rows(call: MockCall) -> int:
    """The first axis is that of the first argument; the other axes follow from its others and from constants.

    Layers of a network are so: the number of samples may depend on the data, the shape of one sample may not.
    """
    first = call.lengths
    if first == PUBLIC:
        return fixed(call)
    ndim = getattr(call.mocks[0], "ndim", 0)
    rest = [call.arguments[1:], tuple(call.keywords.values())]
    others = MockCall(call.operation, rest, {}, (), None)
    if ndim == 0 or first != 1 << (ndim - 1) or others.all_lengths or others.has_private_counts:
        return EVERY
    made = getattr(call.made, "ndim", 0)
    return 1 << (made - 1) if made else EVERY


def reduced(call: MockCall) -> int:
    """The named axes are reduced to one item each, or all axes to one item."""
    rest = MockCall(call.operation, (call.arguments[1:], tuple(call.keywords.values())), {}, (), None)
    if rest.all_lengths or rest.has_private_counts:
        return EVERY
    first = call.lengths
    if first == PUBLIC:
        return PUBLIC
    if getattr(call.made, "ndim", None) == 0:
        return PUBLIC
    ndim = getattr(call.mocks[0], "ndim", None)
    axis = call.given("axis", "dim")
    if ndim is None or axis is None or call.given("q") is not None:
        return EVERY
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    if not all(type(one) is int for one in axes):
        return EVERY
    gone = {one % ndim for one in axes}
    keep = bool(call.given("keepdims", "keepdim", default=False))
    return _without(first, ndim, gone, keep)


def _without(hidden: int, ndim: int, gone: set[int], keep: bool) -> int:
    found = position = 0
    for axis in reversed(range(ndim)):
        bit = hidden >> (ndim - 1 - axis) & 1
        if axis not in gone:
            found |= bit << position
        if axis not in gone or keep:
            position += 1
    return found


def turned(call: MockCall) -> int:
    """The axes are permuted; without other arguments, they are reversed."""
    first = call.lengths
    if first == PUBLIC:
        return shaped(call)
    ndim = getattr(call.mocks[0], "ndim", None)
    if ndim is None or len(call.arguments) > 1 or call.keywords:
        return EVERY
    return reversed_axes(first, ndim)


def reversed_axes(hidden: int, ndim: int) -> int:
    """Return the mask of the transposed array."""
    return sum(1 << position for position in range(ndim) if hidden >> (ndim - 1 - position) & 1)


def squeezed(call: MockCall) -> int:
    """Axes of length one are removed, so the number of axes depends on lengths."""
    return PUBLIC if shaped(call) == PUBLIC else UNCOUNTED


def binned(call: MockCall) -> int:
    """The number or the edges of the bins set the size; a text such as "auto" makes it depend on the data."""
    bins: Any = call.given("bins", default=10)
    return EVERY if isinstance(bins, str) else shaped(call)


def one_hot(call: MockCall) -> int:
    """The width is `num_classes`; without it, the largest class sets it, which is data."""
    classes = call.given("num_classes", default=-1)
    return shaped(call) if type(classes) is int and classes > 0 else EVERY


def repeated(call: MockCall) -> int:
    """Each item is repeated as often as a constant says; without a constant, the items say it, which
    are data.
    """
    return shaped(call) if len(call.arguments) > 1 or call.keywords else EVERY


def chosen(call: MockCall) -> int:
    """`where(condition, x, y)` is elementwise; `where(condition)` returns the positions, whose number
    is data.
    """
    return alike(call) if len(call.arguments) == 3 or len(call.keywords) > 1 else EVERY
