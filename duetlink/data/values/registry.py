"""Find the value type for an object or a node.

Both tables are fixed: a message names no module. Value types of other packages are found by their entry
points, and loaded together, before the first value is read.

No library is imported to find out that an object is not its own: an object of a library can only exist when
the library is in `sys.modules`, and the root of its type's `__module__` names the library.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from duetlink.data.values.base import ValueType
from duetlink.errors import MissingLibrary
from duetlink.extensions import VALUES, extensions

if TYPE_CHECKING:
    from duetlink.data.values.schema_pb2 import Node

_MODULES = {
    "builtins": "duetlink.data.values.builtins_",
    "numpy": "duetlink.data.values.numpy_",
    "torch": "duetlink.data.values.torch_",
    "pyarrow": "duetlink.data.values.arrow_",
    "pandas": "duetlink.data.values.pandas_",
    "polars": "duetlink.data.values.polars_",
}

# the standard library's modules whose types builtins_ knows; `_pydatetime` and `_pydecimal` have the same
# names
_STANDARD = {"builtins", "collections", "datetime", "decimal", "uuid", "zoneinfo"}

_KINDS = {
    "numpy": ("array", "string_array", "object_array", "scalar", "numpy_text", "numpy_octets"),
    "torch": ("tensor",),
    "pyarrow": ("arrow",),
    "pandas": (
        "frame",
        "series",
        "index",
        "range_index",
        "multi_index",
        "categorical",
        "zoned_times",
        "masked",
        "string_column",
        "arrow_column",
        "period",
        "interval",
        "text_objects",
        "objects",
        "instant",
        "span",
        "not_a_time",
        "not_available",
    ),
    "polars": ("polars",),
}
_LIBRARY_OF_KIND = {kind: library for library, kinds in _KINDS.items() for kind in kinds}

_loaded: dict[str, ValueType] = {}


FOREIGN = "foreign"  # the kind of all nodes of other packages


@functools.cache
def registered() -> Mapping[str, ValueType]:
    """Return the handlers of other packages, by the library whose objects they handle.

    Raises:
        ExtensionFailed: one of them cannot be loaded.
    """
    # root modules of the standard library cannot be registered
    found = extensions(VALUES, frozenset(_MODULES) | sys.stdlib_module_names)
    return {name: cast(ValueType, extension.load()) for name, extension in found.items()}


def library_of(type_: type) -> str | None:
    """Return the library whose handler may know this type, if it is loaded."""
    root = str(type_.__module__).partition(".")[0]
    if root in _STANDARD:
        return "builtins"
    if root in _MODULES:
        return root if root in sys.modules else None
    return root if root in registered() else None


def value_type(library: str) -> ValueType:
    """Return the handler of a library; raise MissingLibrary if it cannot be imported."""
    if library not in _MODULES:
        return _foreign(library)
    if library not in _loaded:
        try:
            module = importlib.import_module(_MODULES[library])
        except ImportError as error:
            raise MissingLibrary(
                f"the value holds an object of {library}, which cannot be imported here ({error}); "
                f"install it with `pip install {library}`"
            ) from error
        _loaded[library] = cast(ValueType, module.HANDLER)
    return _loaded[library]


def library_of_kind(kind: str) -> str:
    """Return the library whose handler reads a node of this kind; by default the builtins."""
    return _LIBRARY_OF_KIND.get(kind, "builtins")


def library_of_node(node: Node, kind: str) -> str:
    """Return the library whose handler reads a node; raise MissingLibrary if no package provides it."""
    if kind != FOREIGN:
        return library_of_kind(kind)
    _foreign(node.foreign.library)
    return node.foreign.library


def _foreign(library: str) -> ValueType:
    try:
        return registered()[library]
    except KeyError:
        raise MissingLibrary(
            f"the value holds an object of {library[:100]!r}, for which no package here has a value type"
            f" ({VALUES}); install what the other side has"
        ) from None
