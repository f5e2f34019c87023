"""The kinds of steps: their effect on objects that other results may share. A trace needs to know
nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from duetlink.compute.operations.allow_lists.allowed import AGGREGATE, BACKWARD, ELEMENTWISE, IN_PLACE

# From CHANGES_FIRST to CHANGES_ALL a step writes into memory that may be seen elsewhere.
NOTHING = 0  # to any object; or it is malformed, and refused
FRESH = 1
SHARES = 2  # its result may share memory with each argument
PART = 3  # … with the first one only
READS_GRAPH = 4  # SHARES, and the gradients depend on the whole graph
CHANGES_FIRST = 5
CHANGES_ALL = 6
BACK = 7  # changes the gradients of the graph
EVERYWHERE = 8  # changes what everything may depend on, such as the state of random numbers

# With these a function writes into an argument, unless they are false. They are refused (guards.toml).
_WRITING = frozenset(("out", "inplace", "in_place", "overwrite_input"))
# OTHER in the lists, since a row of their results is made of many; but none returns a part of an argument.
_NEW_ARRAYS = """
    operator.matmul numpy.matmul numpy.dot numpy.concatenate numpy.stack
    torch.matmul torch.mm torch.bmm torch.mv torch.addmm torch.cat torch.stack torch.softmax torch.log_softmax
    torch.nn.functional.linear torch.nn.functional.conv1d torch.nn.functional.conv2d
    torch.nn.functional.embedding torch.nn.functional.layer_norm torch.nn.functional.max_pool2d
    torch.nn.functional.avg_pool2d torch.nn.functional.softmax torch.nn.functional.log_softmax
    .matmul .mm .bmm .mv .softmax .log_softmax
"""
NEW_ARRAYS = frozenset(_NEW_ARRAYS.split())
# These tell where gradients are, to which backward steps add. What else torch would take over as such, for
# instance what `backward` is given, the room copies (separation.py).
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
    # a copied object keeps its gradient
    if effect in (ELEMENTWISE, AGGREGATE) and not operation.startswith("copy."):
        return FRESH
    if operation in NEW_ARRAYS:
        return FRESH
    return SHARES


def writes(keywords: Mapping[str, Any]) -> bool:
    """Say if a keyword, such as `out`, makes the step write into an argument."""
    return any(keywords[name] not in (None, False) for name in _WRITING & keywords.keys())


def teaches(operation: str, keywords: Mapping[str, Any]) -> bool:
    """Say if a step makes parameters, so that gradients may be computed for its result or its argument."""
    if operation.startswith("torch.nn."):
        return not operation.startswith("torch.nn.functional.")
    return operation in _TEACHING or "requires_grad" in keywords
