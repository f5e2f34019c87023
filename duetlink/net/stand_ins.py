"""Loads aiortc without PyAV and aioice without dnspython, until something needs them.

`import aiortc` imports PyAV for media, and aioice imports dnspython for names that end in `.local`. A data
channel needs neither, and together they have a hundred modules. So small modules stand in for `av` and for
`aioice.mdns` while the two packages are imported, and leave `sys.modules` when that is done: `import av`
then imports PyAV, here and elsewhere. The two packages keep the classes of the stand-ins, which are the real
ones for whoever calls them, asks them for an attribute, or asks `isinstance`; the first use imports the real
module.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
import types
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

# the modules that aiortc and aioice import, with the classes that they take from them
AV = {
    "av": ("AudioFrame", "AudioResampler", "CodecContext", "VideoFrame"),
    "av.frame": ("Frame",),
    "av.packet": ("Packet",),
    "av.video.codeccontext": ("VideoCodecContext",),
}
MDNS = {"aioice.mdns": ("MDnsProtocol",)}


class _LateClass(type):
    """The type of a class that stands in for the class of its name and module."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> Any:
        if not bases:
            return super().__new__(mcs, name, bases, namespace)
        # a subclass is an ordinary class of the real one
        real = tuple(base._real() if isinstance(base, _LateClass) else base for base in bases)
        return types.new_class(name, real, exec_body=lambda own: own.update(namespace))

    def _real(cls) -> Any:
        _withdraw()
        return getattr(importlib.import_module(cls.__module__), cls.__name__)

    def __call__(cls, *arguments: Any, **keywords: Any) -> Any:
        return cls._real()(*arguments, **keywords)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls._real(), name)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls._real())

    def __subclasscheck__(cls, subclass: type) -> bool:
        return subclass is cls or issubclass(subclass, cls._real())


class _StandIn(ModuleType):
    """Has late classes for the thread that made it. All else is the real module's, as is all for others."""

    def __init__(self, name: str, classes: Sequence[str]) -> None:
        super().__init__(name)
        self._thread = threading.get_ident()
        self._classes = {each: _LateClass(each, (), {"__module__": name}) for each in classes}

    def __getattr__(self, name: str) -> Any:
        is_importing = threading.get_ident() == self._thread
        if is_importing and name in self._classes:
            return self._classes[name]
        # the import system asks for such names; with a path, `from av import …` would import what it names
        if name.startswith("__") and (is_importing or name != "__path__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        _withdraw()
        return getattr(importlib.import_module(self.__name__), name)


class _MdnsStandIn(_StandIn):
    def is_mdns_hostname(self, name: str) -> bool:
        """Decide as the real function does, and import it only for a name that can be one of mDNS."""
        return ".local" in name and bool(self.__getattr__("is_mdns_hostname")(name))


def _withdraw() -> None:
    for name in (*AV, *MDNS):
        if isinstance(sys.modules.get(name), _StandIn):
            found = sys.modules.pop(name, None)
            if found is not None and not isinstance(found, _StandIn):  # another thread has imported it
                sys.modules[name] = found


@contextlib.contextmanager
def standing_in(modules: Mapping[str, Sequence[str]]) -> Iterator[None]:
    """Put stand-ins for `modules` into `sys.modules` until the end of the block.

    Does nothing if one of them is loaded already.
    """
    if sys.modules.keys() & modules.keys():
        yield
        return
    kind = _MdnsStandIn if modules is MDNS else _StandIn
    made = {name: kind(name, classes) for name, classes in modules.items()}
    sys.modules.update(made)
    try:
        yield
    finally:
        _withdraw()
        for name, module in made.items():
            package, _, own = name.rpartition(".")
            if package and package not in made and package in sys.modules:
                vars(sys.modules[package]).setdefault(own, module)  # as an import does
