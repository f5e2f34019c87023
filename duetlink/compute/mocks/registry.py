"""Finds the file that makes the mock of an object. A library is loaded when an object of it is met."""

from __future__ import annotations

import importlib
from typing import Any, cast

from duetlink.compute.mocks.base import MockBuilder
from duetlink.errors import SettingError

_MODULES = {
    "builtins": "duetlink.compute.mocks.builtins_",
    "numpy": "duetlink.compute.mocks.numpy_",
    "torch": "duetlink.compute.mocks.torch_",
    "pyarrow": "duetlink.compute.mocks.arrow_",
    "pandas": "duetlink.compute.mocks.pandas_",
    "polars": "duetlink.compute.mocks.polars_",
}
_STANDARD = {
    "builtins",
    "collections",
    "datetime",
    "_pydatetime",
    "decimal",
    "_pydecimal",
    "uuid",
    "zoneinfo",
}


def library_of(type_: type) -> str | None:
    """Return the name of the library that defines a type; None if it is unknown here."""
    root = str(type_.__module__).partition(".")[0]
    if root in _STANDARD:
        return "builtins"
    return root if root in _MODULES else None


def is_known(obj: object) -> bool:
    return library_of(type(obj)) is not None


def builder_of(obj: object) -> MockBuilder:
    """The handler of an object's library; raises SettingError for what no library here has."""
    library = library_of(type(obj))
    if library is None:
        raise unsupported(obj)
    return cast(MockBuilder, importlib.import_module(_MODULES[library]).HANDLER)


def unsupported(obj: Any, reason: str = "") -> SettingError:
    """Return the error to raise for an object that no mock can be made of. `reason` ends without a
    full stop.
    """
    type_ = type(obj)
    name = (
        type_.__qualname__ if type_.__module__ == "builtins" else f"{type_.__module__}.{type_.__qualname__}"
    )
    because = f": {reason}" if reason else ""
    return SettingError(
        f"no mock can be made of a {name}{because}; give one by hand, share(…, mock=…), or share it without"
    )
