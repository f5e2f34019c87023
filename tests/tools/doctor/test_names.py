"""Names: looked up all at once, within a bound, and a system resolver that is stuck holds nothing up."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest

from duetlink.tools.doctor.names import NameUnresolved, Resolved, has_route, resolve, system_lookup


async def never(host: str) -> list[str]:
    await asyncio.Event().wait()
    raise AssertionError


async def test_dns_that_never_answers_costs_the_bound_and_says_so() -> None:
    found = await resolve(["stun.example.org"], 0.1, never)
    assert isinstance(found["stun.example.org"], NameUnresolved)
    assert str(found["stun.example.org"]) == (
        "the name stun.example.org was not resolved within 0.1 s: DNS does not answer"
    )


@pytest.mark.parametrize(
    ("routed", "addresses"),
    [
        ("both", ["192.0.2.1", "2001:db8::1"]),
        ("6", ["2001:db8::1"]),  # a machine without IPv4
        ("4", ["192.0.2.1"]),
        ("none", ["192.0.2.1", "2001:db8::1"]),
    ],
)
async def test_one_address_of_each_family_that_leads_out_ipv4_first(
    routed: str, addresses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def many(host: str) -> list[str]:
        return ["2001:db8::1", "junk", "192.0.2.1", "2001:db8::2", "192.0.2.2"]

    def has_route(address: str) -> bool:
        return routed == "both" or routed == ("6" if ":" in address else "4")

    monkeypatch.setattr("duetlink.tools.doctor.names.has_route", has_route)
    assert await resolve(["any"], 60.0, many) == {"any": addresses}


def test_loopback_has_a_route() -> None:
    assert has_route("127.0.0.1")
    assert not has_route("255.255.255.255")  # a broadcast, which no socket may send without asking


@pytest.mark.parametrize("address", ["192.0.2.1", "2001:db8::1"])
async def test_an_address_is_not_looked_up(address: str) -> None:
    assert await resolve([address], 0.0, never) == {address: [address]}


async def test_a_name_is_looked_up_once_for_all_who_ask() -> None:
    asked = []

    async def count(host: str) -> list[str]:
        asked.append(host)
        return ["192.0.2.1"]

    assert list(await resolve(["one", "two", "one"], 60.0, count)) == asked == ["one", "two"]


@pytest.mark.parametrize(
    "error", [socket.gaierror(-2, "Name or service not known"), UnicodeError("label too long")]
)
async def test_a_name_that_does_not_exist(error: Exception) -> None:
    async def fail(host: str) -> list[str]:
        raise error

    assert "has no address" in str((await resolve(["nowhere.invalid"], 60.0, fail))["nowhere.invalid"])


async def test_addresses_need_no_names() -> None:
    assert await system_lookup("127.0.0.1") == ["127.0.0.1"]
    assert await resolve(["::1"], 60.0) == {"::1": ["::1"]}


def test_a_system_resolver_that_is_stuck_holds_up_neither_the_loop_nor_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unstuck = threading.Event()

    def stuck(*arguments: Any, **keywords: Any) -> Any:
        unstuck.wait(100)
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", stuck)

    async def ask() -> Resolved:
        return (await resolve(["stun.example.org"], 0.1))["stun.example.org"]

    assert isinstance(
        asyncio.run(ask()), NameUnresolved
    )  # which waits for the loop's executor, and not for this thread:
    (thread,) = (thread for thread in threading.enumerate() if thread.name == "doctor-resolve")
    assert thread.daemon  # nor does the interpreter's exit
    unstuck.set()
    thread.join(60)
    assert not thread.is_alive()
