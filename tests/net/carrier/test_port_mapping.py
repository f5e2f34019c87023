"""Asking a router for a port, by a made-up library: no test may talk to a router that is there."""

from __future__ import annotations

import asyncio
import sys
import threading
import types
from typing import Any

import pytest

from duetlink.errors import PathUnavailable
from duetlink.net.carrier.drivers import port_mapping
from duetlink.net.carrier.drivers.port_mapping import map_port


class Library(types.ModuleType):
    """Stands for miniupnpc, which raises plain exceptions."""

    def __init__(self, *, found: bool = True, taken: int = 0, outside: str = "203.0.113.9") -> None:
        super().__init__("miniupnpc")
        self.mapped: dict[int, Any] = {}
        self.log: list[str] = []
        self.may_add = threading.Event()
        self.may_add.set()
        library = self

        class UPnP:
            lanaddr = "192.168.1.2"

            def discover(self) -> int:
                return int(found)

            def selectigd(self) -> None:
                if not found:
                    raise Exception("No UPnP device discovered")

            def externalipaddress(self) -> str:
                return outside

            def addportmapping(self, outside: int, kind: str, host: str, port: int, *rest: Any) -> None:
                library.log.append("add")
                library.may_add.wait(60)
                if len(library.log) <= taken:
                    raise Exception("ConflictInMappingEntry")
                library.mapped[outside] = kind, host, port, *rest

            def deleteportmapping(self, outside: int, kind: str, remote: str) -> None:
                library.mapped.pop(outside, None)
                library.log.append("delete")

        self.UPnP = UPnP


def install(monkeypatch: pytest.MonkeyPatch, **options: Any) -> Library:
    library = Library(**options)
    monkeypatch.setitem(sys.modules, "miniupnpc", library)
    return library


async def wait_log(library: Library, log: list[str]) -> None:
    async with asyncio.timeout(60):
        while library.log[: len(log)] != log:
            await asyncio.sleep(0.001)


async def test_a_router_gives_a_port_and_gets_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    library = install(monkeypatch)
    mapping = await map_port(4000)
    assert mapping.address == ("203.0.113.9", 4000)
    assert library.mapped == {4000: ("TCP", "192.168.1.2", 4000, "duetlink", "", 1200)}
    await mapping.close()
    await wait_log(library, ["add", "delete"])
    assert library.mapped == {}


async def test_a_port_is_asked_for_again_before_it_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    library = install(monkeypatch)
    monkeypatch.setattr(port_mapping, "LEASE_S", 0.01)
    mapping = await map_port(4000)
    await wait_log(library, ["add", "add", "add"])
    await mapping.close()


async def test_another_port_is_asked_for_where_one_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    library = install(monkeypatch, taken=2)
    mapping = await map_port(4000)
    assert mapping.address[1] != 4000
    assert list(library.mapped) == [mapping.address[1]]
    await mapping.close()
    await wait_log(library, ["add", "add", "add", "delete"])


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"found": False}, "No UPnP device"),
        ({"taken": 9}, "ConflictInMappingEntry"),
        ({"outside": "0.0.0.0"}, "no address outside, but 0.0.0.0"),
    ],
)
async def test_a_router_that_gives_none_is_an_error_that_says_why(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], why: str
) -> None:
    library = install(monkeypatch, **options)
    with pytest.raises(PathUnavailable, match=why):
        await map_port(4000)
    async with asyncio.timeout(60):
        while library.mapped:
            await asyncio.sleep(0.001)


async def test_without_the_library_the_error_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "miniupnpc", None)
    with pytest.raises(PathUnavailable, match=r"pip install 'duetlink\[upnp\]'"):
        await map_port(4000)


async def test_a_cancelled_call_gives_back_what_it_gets_later(monkeypatch: pytest.MonkeyPatch) -> None:
    library = install(monkeypatch)
    library.may_add.clear()
    asking = asyncio.ensure_future(map_port(4000))
    await wait_log(library, ["add"])
    asking.cancel()
    await asyncio.wait([asking])
    assert asking.cancelled()
    library.may_add.set()
    await wait_log(library, ["add", "delete"])
    assert library.mapped == {}
