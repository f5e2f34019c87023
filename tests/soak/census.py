"""Counts this process's own Python objects, and the items of their containers, by name. Runs inside of it."""

from __future__ import annotations

import collections
import contextlib
import gc
import sys
from collections import Counter, deque
from collections.abc import Iterator
from types import MemberDescriptorType, ModuleType
from typing import Any

# asyncio's for tasks that never end, aiortc's and aioice's for connections that were replaced
COUNTED = ("duetlink", "asyncio", "_asyncio", "threading", "concurrent", "mmap", "aiortc", "aioice")
_CONTAINERS = (list, dict, set, collections.OrderedDict, collections.defaultdict, deque)


def take() -> dict[str, int]:
    """Objects by class, and the items in containers of duetlink's objects and modules by attribute."""
    gc.collect()
    found: Counter[str] = Counter()
    for each in gc.get_objects():
        kind = type(each)
        if _root(kind) in COUNTED:
            found[f"{kind.__module__}.{kind.__qualname__}"] += 1
            if _root(kind) == "duetlink":
                for name, value in _attributes(each):
                    found[f"items of {kind.__module__}.{kind.__qualname__}.{name}"] += len(value)
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType) and module.__name__.partition(".")[0] == "duetlink":
            for name, value in list(vars(module).items()):
                if _is_unbounded(value) and not name.startswith("__"):
                    found[f"items of {module.__name__}.{name}"] += len(value)
    return dict(found)


def _root(kind: type) -> str:
    module = kind.__module__
    return module.partition(".")[0] if isinstance(module, str) else ""


def _attributes(each: object) -> Iterator[tuple[str, Any]]:
    """The containers that it holds. A pointer's own `__getattr__` is not asked: it would make steps."""
    with contextlib.suppress(AttributeError):
        for name, value in dict(object.__getattribute__(each, "__dict__")).items():
            if _is_unbounded(value):
                yield name, value
    for kind in type(each).__mro__:
        for name, slot in vars(kind).items():
            if isinstance(slot, MemberDescriptorType):
                with contextlib.suppress(AttributeError):  # not set yet
                    if _is_unbounded(value := slot.__get__(each)):
                        yield name, value


def _is_unbounded(value: object) -> bool:
    return type(value) in _CONTAINERS and getattr(value, "maxlen", None) is None
