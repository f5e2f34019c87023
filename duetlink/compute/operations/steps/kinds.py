"""The kinds of steps: their effect on objects that other results may share. A trace needs to know
nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from duetlink.compute.operations.allow_lists.allowed import AGGREGATE, BACKWARD, ELEMENTWISE, IN_PLACE

# Steps from CHANGES_FIRST to CHANGES_ALL write into memory that other results may share.
NOTHING = 0  # no effect on any object; also a malformed step, which a room refuses
FRESH = 1
SHARES = 2  # its result may share memory with every argument
PART = 3  # its result may share memory with the first argument only
READS_GRAPH = 4  # as SHARES, and its result depends on the whole graph
CHANGES_FIRST = 5
CHANGES_ALL = 6
BACK = 7  # changes the gradients of the graph
EVERYWHERE = 8  # changes a state that every step may depend on, such as that of random numbers

# Keywords that make a function write into an argument, unless they are false. guards.toml refuses them.
_WRITING = frozenset(("out", "inplace", "in_place", "overwrite_input"))
# These are OTHER in the lists, since a row of the result depends on many rows; yet all return new memory.
_NEW_ARRAYS = """
    operator.matmul numpy.matmul numpy.dot numpy.concatenate numpy.stack
    torch.matmul torch.mm torch.bmm torch.mv torch.addmm torch.cat torch.stack torch.softmax torch.log_softmax
    torch.nn.functional.linear torch.nn.functional.conv1d torch.nn.functional.conv2d
    torch.nn.functional.embedding torch.nn.functional.layer_norm torch.nn.functional.max_pool2d
    torch.nn.functional.avg_pool2d torch.nn.functional.softmax torch.nn.functional.log_softmax
    .matmul .mm .bmm .mv .softmax .log_softmax
"""
NEW_ARRAYS = frozenset(_NEW_ARRAYS.split())
# Attributes that give access to gradients, to which backward steps add. Other objects that torch would use as
# a gradient, such as the argument of `backward`, are copied by the room (separation.py).
GRADIENTS = frozenset(("@grad", "@=grad"))
_TEACHING = frozenset((".requires_grad_", "@=requires_grad"))


def kind_by_name(operation: str, effects: Callable[[str], str]) -> int:
    """Return the kind of an operation, for any arguments."""
    effect = effects(operation)
    if operation[0] not in ".@" and "seed" in operation.rpartition(".")[2]:
        return EVERYWHERE
    if effect == BACKWARD:
        return BACK
    if operation.startswith("torch.autograd."):
        return READS_GRAPH
    if effect == IN_PLACE:
        return CHANGES_FIRST if operation[0] in ".@" else CHANGES_ALL
    if operation in ("operator.getitem", ".__getitem__"):
        return PART
    # not copy.*: a copied object keeps its gradient
    if effect in (ELEMENTWISE, AGGREGATE) and not operation.startswith("copy."):
        return FRESH
    if operation in NEW_ARRAYS:
        return FRESH
    return SHARES


def writes(keywords: Mapping[str, Any]) -> bool:
    """Return True if a keyword, such as `out`, makes the step write into an argument."""
    return any(keywords[name] not in (None, False) for name in _WRITING & keywords.keys())


def teaches(operation: str, keywords: Mapping[str, Any]) -> bool:
    """Return True if a step makes parameters: then its result, or its argument, may get gradients."""
    if operation.startswith("torch.nn."):
        return not operation.startswith("torch.nn.functional.")
    return operation in _TEACHING or "requires_grad" in keywords
