"""Rules of sizes that hold for arrays, tensors and columns alike."""

from __future__ import annotations

from typing import Any

from duetlink.compute.operations.sizes.call import MockCall
from duetlink.compute.operations.sizes.mask import EVERY, NESTED, PUBLIC, UNCOUNTED


def unknown(call: MockCall) -> int:
    """What is in no list: any length may depend on the data."""
    return UNCOUNTED if isinstance(call.made, list) else EVERY


def uncounted(call: MockCall) -> int:
    """Even the number of axes may depend on the data; of several results of a call, that of each."""
    is_of_call = isinstance(call.made, tuple) and not call.operation.startswith("@")
    return EVERY | NESTED if is_of_call else UNCOUNTED


def counted(call: MockCall) -> int:
    """As many parts as the constants say; how long each is, the arguments' sizes say."""
    return PUBLIC if fixed(call) == PUBLIC else EVERY


def fixed(call: MockCall) -> int:
    """The sizes follow from those of all arguments, whatever is in them."""
    return EVERY if call.all_lengths or call.has_private_counts else PUBLIC


def shaped(call: MockCall) -> int:
    """The sizes follow from that of the first argument and from constants, such as the shape in `reshape`."""
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
    """Item by item: the sizes are broadcast."""
    found = call.all_lengths
    if found == PUBLIC or not isinstance(call.made, (tuple, list)):
        return found
    ndims = {getattr(part, "ndim", None) for part in call.made}
    return found if len(ndims) == 1 else EVERY


def rows(call: MockCall) -> int:
    """The first axis is that of the first argument; the others follow from its others, and from constants.

    So it is with layers: how many samples there are may depend on the data, and what a sample looks like not.
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
    """One item is made of many: the axes that are named are gone."""
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
    found = place = 0
    for axis in reversed(range(ndim)):
        bit = hidden >> (ndim - 1 - axis) & 1
        if axis not in gone:
            found |= bit << place
        if axis not in gone or keep:
            place += 1
    return found


def turned(call: MockCall) -> int:
    """The axes in another order: all of them the other way round, where nothing else is said."""
    first = call.lengths
    if first == PUBLIC:
        return shaped(call)
    ndim = getattr(call.mocks[0], "ndim", None)
    if ndim is None or len(call.arguments) > 1 or call.keywords:
        return EVERY
    return reversed_axes(first, ndim)


def reversed_axes(hidden: int, ndim: int) -> int:
    """The mask of what is transposed."""
    return sum(1 << place for place in range(ndim) if hidden >> (ndim - 1 - place) & 1)


def squeezed(call: MockCall) -> int:
    """Axes of length one are gone, so that their number depends on lengths."""
    return PUBLIC if shaped(call) == PUBLIC else UNCOUNTED


def binned(call: MockCall) -> int:
    """Bins by their number or edges; how many `auto` makes depends on the data."""
    bins: Any = call.given("bins", default=10)
    return EVERY if isinstance(bins, str) else shaped(call)


def one_hot(call: MockCall) -> int:
    """As wide as the largest class, unless it is said how many there are."""
    classes = call.given("num_classes", default=-1)
    return shaped(call) if type(classes) is int and classes > 0 else EVERY


def repeated(call: MockCall) -> int:
    """Each item as often as a constant says, or as the items themselves say, where there is nothing else."""
    return shaped(call) if len(call.arguments) > 1 or call.keywords else EVERY


def chosen(call: MockCall) -> int:
    """`where(condition, x, y)` goes item by item; with a condition only it says where that is true."""
    return alike(call) if len(call.arguments) == 3 or len(call.keywords) > 1 else EVERY
