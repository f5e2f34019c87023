"""Asking a router for a port: the bytes, a router made up for the test, and a library made up likewise."""

from __future__ import annotations

import asyncio
import ipaddress
import struct
import sys
import threading
import types
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetlink.errors import PathUnavailable
from duetlink.net.carrier import pcp, port_mapping
from duetlink.net.carrier.address import Address
from duetlink.net.carrier.gateway import find_gateway, read_routes
from duetlink.net.carrier.pcp import Grant, OnlyNatPmp
from duetlink.net.carrier.port_mapping import LEASE_S, map_port

NONCE = bytes(range(12))
OUTSIDE = ipaddress.IPv4Address("203.0.113.7").packed

# -- bytes ---------------------------------------------------------------------------------------------------


def test_a_pcp_request_is_as_in_the_rfc() -> None:
    request = pcp.pcp_request(NONCE, "192.168.1.2", 4000, 5000, 1200)
    assert request == bytes.fromhex(
        "02010000 000004b0 00000000000000000000ffffc0a80102"
        "000102030405060708090a0b 06000000 0fa0 1388 00000000000000000000ffff00000000"
    )


def pcp_answer(**change: int) -> bytes:
    fields = {"version": 2, "opcode": 0x81, "result": 0, "port": 4000, "protocol": 6} | change
    header = struct.pack("!BBBBI", fields["version"], fields["opcode"], 0, fields["result"], 600) + bytes(16)
    body = NONCE + struct.pack("!BxxxHH", fields["protocol"], fields["port"], 5001)
    return header + body + bytes(10) + b"\xff\xff" + OUTSIDE


def test_a_pcp_answer_grants_or_refuses() -> None:
    assert pcp.read_pcp(pcp_answer(), NONCE, 4000) == Grant(5001, 600, "203.0.113.7")
    with pytest.raises(PathUnavailable, match="it does not permit it"):
        pcp.read_pcp(pcp_answer(result=2), NONCE, 4000)
    with pytest.raises(PathUnavailable, match="error 77"):
        pcp.read_pcp(pcp_answer(result=77), NONCE, 4000)
    with pytest.raises(OnlyNatPmp):
        pcp.read_pcp(bytes.fromhex("0080000100000000"), NONCE, 4000)


@pytest.mark.parametrize("change", [{"version": 3}, {"opcode": 1}, {"port": 4001}, {"protocol": 17}])
def test_what_answers_something_else_is_passed_over(change: dict[str, int]) -> None:
    assert pcp.read_pcp(pcp_answer(**change), NONCE, 4000) is None
    assert pcp.read_pcp(pcp_answer(), bytes(12), 4000) is None


def test_nat_pmp_is_as_in_the_rfc() -> None:
    assert pcp.nat_pmp_address_request() == bytes.fromhex("0000")
    assert pcp.nat_pmp_request(4000, 5000, 1200) == bytes.fromhex("00020000 0fa0 1388 000004b0")
    answer = bytes.fromhex("0080 0000 00000001") + OUTSIDE
    assert pcp.read_nat_pmp_address(answer) == "203.0.113.7"
    answer = bytes.fromhex("0082 0000 00000001 0fa0 1389 00000258")
    assert pcp.read_nat_pmp(answer, 4000) == Grant(5001, 600)
    assert pcp.read_nat_pmp(answer, 4001) is None
    with pytest.raises(PathUnavailable, match="no more ports"):
        pcp.read_nat_pmp(bytes.fromhex("0082 0004 00000001"), 4000)


@given(
    st.binary(max_size=80)
    | st.builds(
        lambda head, body: head + body,
        st.sampled_from([b"\x02\x81", b"\x00\x80", b"\x00\x82", b"\x02\x81\x00\x00"]),
        st.binary(max_size=70),
    )
)
def test_whatever_comes_is_a_grant_a_refusal_or_nothing(data: bytes) -> None:
    reads: list[Callable[[bytes], Any]] = [
        lambda data: pcp.read_pcp(data, NONCE, 4000),
        lambda data: pcp.read_nat_pmp(data, 4000),
        pcp.read_nat_pmp_address,
    ]
    for read in reads:
        with suppress(PathUnavailable):
            read(data)


# -- a router ------------------------------------------------------------------------------------------------


class Router(asyncio.DatagramProtocol):
    """Gives ports as it is told; keeps what it has given."""

    def __init__(
        self, *, pcp: bool = True, nat_pmp: bool = True, outside: bytes = OUTSIDE, lose: int = 0
    ) -> None:
        self.pcp, self.nat_pmp, self.outside, self.lose = pcp, nat_pmp, outside, lose
        self.lifetimes: dict[int, int] = {}
        self.requests = 0
        self.changed = asyncio.Event()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.requests += 1
        if self.requests <= self.lose:
            return
        self.transport.sendto(b"\xff" * 30, addr)  # is passed over
        if data[0] == 2 and self.pcp:
            lifetime_s, port = struct.unpack_from("!I", data, 4)[0], struct.unpack_from("!H", data, 40)[0]
            assert ipaddress.IPv6Address(data[8:24]).ipv4_mapped == ipaddress.IPv4Address(addr[0])
            answer = bytearray(data)
            answer[1] |= 0x80
            answer[42:44] = struct.pack("!H", port + 1)
            answer[44:60] = bytes(10) + b"\xff\xff" + self.outside
            self._given(port, lifetime_s)
            self.transport.sendto(bytes(answer), addr)
        elif data[0] == 2 and self.nat_pmp:
            self.transport.sendto(bytes.fromhex("0081000100000000"), addr)
        elif data == b"\x00\x00" and self.nat_pmp:
            self.transport.sendto(bytes.fromhex("0080000000000001") + self.outside, addr)
        elif data[0] == 0 and self.nat_pmp:
            _, _, _, port, _, lifetime_s = struct.unpack("!BBHHHI", data)
            self._given(port, lifetime_s)
            self.transport.sendto(struct.pack("!BBHIHHI", 0, 0x82, 0, 1, port, port + 2, lifetime_s), addr)

    def _given(self, port: int, lifetime_s: int) -> None:
        self.lifetimes[port] = lifetime_s
        self.changed.set()


@asynccontextmanager
async def router(**options: Any) -> AsyncIterator[tuple[Router, Address]]:
    loop = asyncio.get_running_loop()
    transport, made = await loop.create_datagram_endpoint(lambda: Router(**options), ("127.0.0.1", 0))
    try:
        yield made, transport.get_extra_info("sockname")
    finally:
        transport.close()


@pytest.fixture(autouse=True)
def no_upnp(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the library were not installed; tests must not talk to a router that there is."""
    monkeypatch.setitem(sys.modules, "miniupnpc", None)


@pytest.mark.parametrize(
    ("options", "outside"),
    [
        ({}, 4001),
        ({"pcp": False}, 4002),
        ({"nat_pmp": False}, 4001),
        ({"lose": 1}, 4001),
        ({"lose": 2}, 4002),
    ],
)
async def test_a_router_gives_a_port_and_gets_it_back(options: dict[str, Any], outside: int) -> None:
    async with router(**options) as (made, gateway):
        mapping = await map_port(4000, gateway)
        assert mapping.address == ("203.0.113.7", outside)
        assert made.lifetimes == {4000: LEASE_S}
        made.changed.clear()
        await mapping.close()
        await made.changed.wait()
        assert made.lifetimes == {4000: 0}
    assert LEASE_S <= 3600


async def test_a_port_is_asked_for_again_before_it_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_mapping, "LEASE_S", 1)
    monkeypatch.setattr(port_mapping, "_MIN_RENEWAL_S", 0.05)
    async with router() as (made, gateway):
        mapping = await map_port(4000, gateway)
        before = made.requests
        async with asyncio.timeout(60):
            while made.requests == before:
                await asyncio.sleep(0.01)
        await mapping.close()


async def test_a_router_that_does_not_answer_is_an_error_within_the_time() -> None:
    async with router(pcp=False, nat_pmp=False) as (_, gateway):
        async with asyncio.timeout(60):
            with pytest.raises(PathUnavailable, match="neither PCP nor NAT-PMP") as error:
                await map_port(4000, gateway)
        assert "pip install 'duetlink\\[upnp\\]'" not in str(error.value)
        assert "duetlink[upnp]" in str(error.value)


async def test_a_router_with_nothing_outside_is_of_no_use() -> None:
    async with router(outside=bytes(4)) as (made, gateway):
        with pytest.raises(PathUnavailable, match="no address outside"):
            await map_port(4000, gateway)
        while made.lifetimes != {4000: 0}:
            await asyncio.sleep(0.01)


async def test_a_cancelled_call_gives_back_what_it_may_have_got() -> None:
    async with router(lose=1) as (made, gateway):
        asking = asyncio.ensure_future(map_port(4000, gateway))
        while not made.requests:
            await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])
        assert asking.cancelled()
        async with asyncio.timeout(60):
            while made.lifetimes != {4000: 0}:
                await asyncio.sleep(0.01)


# -- a library -----------------------------------------------------------------------------------------------


class Library(types.ModuleType):
    """Stands for miniupnpc, which raises plain exceptions."""

    def __init__(self, *, found: bool = True, taken: int = 0) -> None:
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
                return "203.0.113.9"

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


@pytest.fixture
async def silent() -> AsyncIterator[Address]:
    async with router(pcp=False, nat_pmp=False) as (_, gateway):
        yield gateway


async def wait_gone(library: Library) -> None:
    async with asyncio.timeout(60):
        while library.mapped:
            await asyncio.sleep(0.01)


async def test_upnp_gives_a_port_and_gets_it_back(monkeypatch: pytest.MonkeyPatch, silent: Address) -> None:
    library = Library()
    monkeypatch.setitem(sys.modules, "miniupnpc", library)
    mapping = await map_port(4000, silent)
    assert mapping.address == ("203.0.113.9", 4000)
    assert library.mapped == {4000: ("TCP", "192.168.1.2", 4000, "duetlink", "", LEASE_S)}
    await mapping.close()
    await wait_gone(library)


async def test_another_port_is_asked_for_where_one_is_taken(
    monkeypatch: pytest.MonkeyPatch, silent: Address
) -> None:
    library = Library(taken=2)
    monkeypatch.setitem(sys.modules, "miniupnpc", library)
    mapping = await map_port(4000, silent)
    assert mapping.address[1] != 4000
    assert list(library.mapped) == [mapping.address[1]]
    await mapping.close()
    await wait_gone(library)


@pytest.mark.parametrize(
    ("options", "why"), [({"found": False}, "No UPnP device"), ({"taken": 9}, "ConflictInMappingEntry")]
)
async def test_the_librarys_errors_are_ours(
    monkeypatch: pytest.MonkeyPatch, silent: Address, options: dict[str, Any], why: str
) -> None:
    monkeypatch.setitem(sys.modules, "miniupnpc", Library(**options))
    with pytest.raises(PathUnavailable, match=why):
        await map_port(4000, silent)


async def test_a_port_that_upnp_gives_too_late_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library()
    library.may_add.clear()
    monkeypatch.setitem(sys.modules, "miniupnpc", library)
    async with router() as (_, gateway):
        mapping = await map_port(4000, gateway)
        assert mapping.address == ("203.0.113.7", 4001)
        async with asyncio.timeout(60):
            while not library.log:
                await asyncio.sleep(0.01)
        library.may_add.set()
        await mapping.close()
    async with asyncio.timeout(60):
        while library.log != ["add", "delete"]:
            await asyncio.sleep(0.01)
    assert library.mapped == {}


# -- where the router is -------------------------------------------------------------------------------------


def test_the_default_route_names_the_router() -> None:
    table = (
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\n"
        "eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\n"
        "eth0\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\n"
    )
    if sys.byteorder == "little":
        assert read_routes(table) == "192.168.1.1"
    assert read_routes("Iface\tDestination\n") is None
    assert read_routes("") is None


def test_elsewhere_it_is_the_first_address_of_our_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_table(*args: Any, **options: Any) -> str:
        raise FileNotFoundError

    monkeypatch.setattr("pathlib.Path.read_text", no_table)
    found = find_gateway()
    assert found is None or ipaddress.IPv4Address(found).packed[3] == 1
