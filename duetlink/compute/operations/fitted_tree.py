"""Converts a decision tree of scikit-learn to arrays, and arrays to a tree that compiled code can trust.

Compiled code walks a tree without checks. So each node but the root must be the child of exactly one earlier
node, a node may only compare an existing column, and the depth is computed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duetlink.errors import OperationRefused

TREE = "tree"  # a tree is sent as {TREE: {name: array or number}}
_COUNTS = ("n_features", "n_outputs")
_ARRAYS = ("n_classes", "values")


def is_tree(value: Any) -> bool:
    kind: Any = type(value)
    return bool(kind.__module__ == "sklearn.tree._tree" and kind.__name__ == "Tree")


def told_of(tree: Any) -> dict[str, Any]:
    """Return a tree as numbers and arrays."""
    _, (n_features, n_classes, n_outputs), state = tree.__reduce__()
    nodes = state["nodes"]
    columns = {name: nodes[name].copy() for name in nodes.dtype.names}
    counts = {"n_features": int(n_features), "n_outputs": int(n_outputs), "n_classes": n_classes}
    return {TREE: {**counts, "values": state["values"], **columns}}


def tree_of(parts: Mapping[str, Any]) -> Any:
    """Return the tree. Raise OperationRefused if compiled code would leave its memory or never end."""
    import numpy as np
    from sklearn.tree import _tree

    dtype = np.dtype(_tree.NODE_DTYPE)
    names: tuple[str, ...] = dtype.names or ()
    if parts.keys() != {*_COUNTS, *_ARRAYS, *names} or any(type(parts[name]) is not int for name in _COUNTS):
        raise _refusal("has other fields than a tree of this version")
    n_features, n_outputs, n_classes, values = (parts[name] for name in (*_COUNTS, *_ARRAYS))
    if n_features < 1 or not 1 <= n_outputs == len(n_classes) or n_classes.dtype.kind != "i":
        raise _refusal("has no columns or no outputs")
    count = len(values)
    if count < 1 or any(parts[name].shape != (count,) for name in names) or n_classes.min() < 1:
        raise _refusal("has arrays of different lengths")
    if values.shape != (count, n_outputs, n_classes.max()) or values.dtype != np.float64:
        raise _refusal("has values of another shape")
    nodes = np.zeros(count, dtype)
    for name in names:
        if parts[name].dtype != dtype[name]:
            raise _refusal(f"has a field {name} that is not {dtype[name]}")
        nodes[name] = parts[name]
    state = {"max_depth": _depth(nodes, n_features), "node_count": count, "nodes": nodes}
    tree = _tree.Tree(n_features, n_classes.astype(np.intp), n_outputs)
    tree.__setstate__({**state, "values": np.ascontiguousarray(values)})
    return tree


def _depth(nodes: Any, n_features: int) -> int:
    """Return the depth of the deepest node; the root has depth 0. Raise OperationRefused if it is no tree."""
    import numpy as np

    count = len(nodes)
    left, right = nodes["left_child"], nodes["right_child"]
    inner = np.flatnonzero(left != -1)
    if not np.array_equal(inner, np.flatnonzero(right != -1)):
        raise _refusal("has a node with one child")
    children = np.concatenate([left[inner], right[inner]])
    if (
        not np.array_equal(np.sort(children), np.arange(1, count))
        or ((left[inner] <= inner) | (right[inner] <= inner)).any()
    ):
        raise _refusal("has nodes with no parent or several")
    asked = nodes["feature"][inner]
    if ((asked < 0) | (asked >= n_features)).any():
        raise _refusal("compares a column that does not exist")
    depths = np.zeros(count, np.intp)
    for node in inner.tolist():  # parents come before their children
        depths[left[node]] = depths[right[node]] = depths[node] + 1
    return int(depths.max())


def _refusal(why: str) -> OperationRefused:
    return OperationRefused(f"this fitted tree is refused, since it {why}; fit it at the owner")
