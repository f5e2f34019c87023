"""Fault hooks: ways into a running duet, group or link, for tests of what happens when something breaks.

Tests name nothing private of the packages. What they have to break, or to look at where nothing public shows
it, they reach through here, so that a change inside changes this file and not a hundred tests.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Coroutine
from types import ModuleType
from typing import Any, TypeVar, overload

import pytest

from duetlink.compute.operations.allowed import Allowed, Function
from duetlink.data.codecs import registry
from duetlink.duet.duet import Duet
from duetlink.duet.life import Life
from duetlink.errors import LinkClosed
from duetlink.groups.group import Group
from duetlink.groups.life import GroupLife
from duetlink.net.link.link import Link

T = TypeVar("T")


@overload
def life_of(whole: Duet) -> Life: ...
@overload
def life_of(whole: Group) -> GroupLife: ...
def life_of(whole: Duet | Group) -> Life | GroupLife:
    """The parts of a duet or of a group. Call them on its loop, by `run_inside`."""
    return whole._life


def link_of(duet: Duet) -> Link:
    """The link of a duet. Raises AssertionError: it has none yet."""
    link = duet._life.link
    assert link is not None, "this duet has no link yet"
    return link


def run_inside(whole: Duet | Group, coroutine: Coroutine[Any, Any, T]) -> T:
    """What the coroutine returns, run on the loop of a duet or of a group."""
    return whole._thread.run(coroutine)


def start_inside(whole: Duet | Group, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
    """Start the coroutine on the loop of a duet or of a group."""
    return whole._thread.submit(coroutine)


def cut_link(link: Link) -> Callable[[], None]:
    """Let nothing leave the sockets of the link's connection any more; returns what undoes it.

    To be called on the link's loop.
    """
    connection: Any = link._lifeline._connection
    transports = [
        protocol.transport for protocol in connection._pc.sctp.transport.transport._connection._protocols
    ]
    kept = [transport.sendto for transport in transports]
    for transport in transports:
        transport.sendto = lambda data, address=None: None

    def heal() -> None:
        for transport, sendto in zip(transports, kept, strict=True):
            transport.sendto = sendto

    return heal


def end_of(link: Link) -> asyncio.Future[LinkClosed]:
    """Done when the link has ended, with the reason."""
    return link._ended


def send_control(link: Link, message: bytes) -> None:
    """Send any bytes as a control message, as a hostile peer may."""
    link._lifeline.control.send_nowait(message)


def set_constants(patch: pytest.MonkeyPatch, module: ModuleType, **values: Any) -> None:
    """Let constants of a module have other values during a test, such as a limit that is reached sooner.

    `CLOSE_TIMEOUT_S=60.0` is for `_CLOSE_TIMEOUT_S`. Raises AttributeError: the module has no such constant.
    """
    for name, value in values.items():
        patch.setattr(module, f"_{name}", value)


def list_function(lists: Allowed, function: Function) -> None:
    """Put an operation onto the lists, as if a library had it."""
    lists._functions[function.name] = function


def listed_functions(lists: Allowed) -> frozenset[str]:
    """The names of all functions on the lists, those too that this version of a library has not."""
    return frozenset(lists._functions)


def forget_codecs() -> None:
    """Let codecs be found by their entry points anew, and forget those that were registered."""
    registry._table.cache_clear()
