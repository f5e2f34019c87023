"""Which file handles which object, and which node. Both tables are fixed: a message names no module.

A library is not imported to find out that an object is not its own: an object of a library can only exist
when the library is in `sys.modules`, and the root of its type's `__module__` says which one.
"""

from __future__ import annotations

import importlib
import sys
from typing import cast

from duetlink.data.values.base import ValueType
from duetlink.errors import MissingLibrary

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


def library_of(type_: type) -> str | None:
    """The library whose handler may know this type, if it is loaded."""
    root = str(type_.__module__).partition(".")[0]
    if root in _STANDARD:
        return "builtins"
    return root if root in _MODULES and root in sys.modules else None


def value_type(library: str) -> ValueType:
    """The handler of a library; raises MissingLibrary."""
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
    """The library whose handler reads a node of this kind; kinds outside the tables are the builtins'."""
    return _LIBRARY_OF_KIND.get(kind, "builtins")


def value_type_of_kind(kind: str) -> ValueType:
    """The handler of a node's kind."""
    return value_type(library_of_kind(kind))
