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
    """Has late classes. Any other attribute is the real module's, also while aiortc or aioice is imported."""

    def __init__(self, name: str, classes: Sequence[str]) -> None:
        super().__init__(name)
        for each in classes:
            setattr(self, each, _LateClass(each, (), {"__module__": name}))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import system asks for such names
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
            del sys.modules[name]


@contextlib.contextmanager
def standing_in(modules: Mapping[str, Sequence[str]]) -> Iterator[None]:
    """Put stand-ins for `modules` into `sys.modules` until the end of the block.

    Does nothing if one of them is loaded already.
    """
    if sys.modules.keys() & modules.keys():
        yield
        return
    for name, classes in modules.items():
        kind = _MdnsStandIn if modules is MDNS else _StandIn
        sys.modules[name] = kind(name, classes)
    try:
        yield
    finally:
        _withdraw()
