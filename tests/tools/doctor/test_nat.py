"""NAT kinds: decided from observations, and measured with servers that play every NAT."""

from __future__ import annotations

import pytest
from aioice.stun import Message

from duetlink.net.stun.address import Address
from duetlink.tools.doctor.nat import Behaviour, Nat, Observation, mapping_of
from duetlink.tools.doctor.nat_probe import measure_nat, probe_nat
from tests.net.stun.fake_server import FakeUdpServer, refusal, reply, truthful, udp_server

A1, A2, B1, B2 = ("192.0.2.1", 1), ("192.0.2.1", 2), ("192.0.2.2", 1), ("192.0.2.2", 2)
X, Y, Z = ("198.51.100.1", 40000), ("198.51.100.1", 40001), ("198.51.100.1", 40002)


@pytest.mark.parametrize(
    ("seen", "mapping"),
    [
        ([], "unknown"),
        ([(A1, X)], "unknown"),
        ([(A1, X), (A1, X)], "unknown"),
        ([(A1, X), (A2, X)], "unknown"),  # the same address twice: says nothing about others
        ([(A1, X), (B1, X)], "endpoint-independent"),
        ([(A1, X), (B1, X), (B2, X)], "endpoint-independent"),
        ([(A1, X), (B1, Y)], "endpoint-dependent"),
        ([(A1, X), (B1, Y), (B2, Y)], "address-dependent"),
        ([(A1, X), (B1, Y), (B2, Z)], "address-and-port-dependent"),
        ([(A1, X), (A2, Y)], "address-and-port-dependent"),
    ],
)
def test_what_mappings_say(seen: list[tuple[Address, Address]], mapping: Behaviour) -> None:
    assert mapping_of([Observation(*one) for one in seen]) == mapping


@pytest.mark.parametrize(
    ("nat", "name", "outcome"),
    [
        (Nat(True, "endpoint-independent", X), "cone", "ok"),
        (Nat(True, "address-dependent", X), "symmetric", "limited"),
        (Nat(True, "address-and-port-dependent", X), "symmetric", "limited"),
        (Nat(True, "endpoint-dependent", X), "symmetric", "limited"),
        (Nat(True, "unknown", X), "unknown", "unknown"),
        (Nat(False, "endpoint-independent", X), "no NAT", "ok"),
    ],
)
def test_a_nat_has_its_old_name_and_its_standard_terms(nat: Nat, name: str, outcome: str) -> None:
    finding = nat.finding()
    assert finding.outcome == outcome
    assert finding.details["old_name"] == name
    if nat.translated and nat.mapping != "unknown":
        assert name in finding.words
        assert f"mapping {nat.mapping}" in finding.words


class PlayedNat:
    """A server with two addresses and ports, answering as if a NAT were in between; 127.0.0.9 is outside."""

    def __init__(self, mapping: str, *, shift: int = 0) -> None:
        self.mapping, self.shift = mapping, shift
        self.server: FakeUdpServer

    def __call__(self, request: Message, at: Address, source: Address) -> bytes | None:
        hosts = sorted({place[0] for place in self.server.sockets})
        ports = sorted({place[1] for place in self.server.sockets})
        other = (hosts[1 - hosts.index(at[0])], ports[1 - ports.index(at[1])])
        shift = {
            "endpoint-independent": 0,
            "address-dependent": hosts.index(at[0]),
            "address-and-port-dependent": 2 * hosts.index(at[0]) + ports.index(at[1]),
        }[self.mapping]
        mapped = ("127.0.0.9", source[1] + self.shift + shift)
        return bytes(reply(request, {"XOR-MAPPED-ADDRESS": mapped, "OTHER-ADDRESS": other}))


async def played(nat: PlayedNat) -> Nat | None:
    async with udp_server(nat, hosts=("127.0.0.1", "127.0.0.2"), ports=2) as (server, address):
        nat.server = server
        return await measure_nat([address], ["127.0.0.1"])


@pytest.mark.parametrize(
    "mapping", ["endpoint-independent", "address-dependent", "address-and-port-dependent"]
)
async def test_each_kind_is_told_by_one_server_with_two_addresses(mapping: Behaviour) -> None:
    nat = await played(PlayedNat(mapping, shift=-20_000))
    assert nat is not None
    assert (nat.translated, nat.mapping) == (True, mapping)


async def test_two_plain_servers_show_the_mapping(dead_port: int) -> None:
    def outside(request: Message, at: Address, source: Address) -> bytes:
        return bytes(reply(request, {"XOR-MAPPED-ADDRESS": ("127.0.0.9", 7)}))

    async with udp_server(outside) as (_, first), udp_server(outside, hosts=("127.0.0.2",)) as (_, second):
        nat = await measure_nat([first, ("127.0.0.1", dead_port), second], ["127.0.0.1"])
        assert nat is not None
        assert nat.mapping == "endpoint-independent"
        alone = await measure_nat([first], ["127.0.0.1"])
        assert alone is not None
        assert alone.mapping == "unknown"
        assert "second STUN server" in alone.finding().advice


async def test_a_server_on_this_side_of_the_nat_is_left_out() -> None:
    def outside(request: Message, at: Address, source: Address) -> bytes:
        return bytes(reply(request, {"XOR-MAPPED-ADDRESS": ("127.0.0.9", 7)}))

    async with udp_server(truthful) as (_, near), udp_server(outside, hosts=("127.0.0.2",)) as (_, far):
        nat = await measure_nat([near, far], ["127.0.0.1"])
        assert nat is not None
        assert (nat.translated, nat.mapping) == (True, "unknown")


@pytest.mark.parametrize(
    "other",
    [("8.8.8.8", 9), ("127.0.0.1", 9), ("224.0.0.1", 9), ("0.0.0.0", 9), ("127.0.0.2", 0), ("::1", 9)],
)
async def test_a_server_cannot_have_this_machine_send_just_anywhere(other: Address) -> None:
    def lie(request: Message, at: Address, source: Address) -> bytes:
        return bytes(reply(request, {"XOR-MAPPED-ADDRESS": source, "OTHER-ADDRESS": other}))

    async with udp_server(lie) as (fake, server):
        nat = await measure_nat([server], ["127.0.0.1"])
        assert nat is not None
        assert len(fake.asked) == 1


async def test_servers_that_answer_nonsense_or_nothing_measure_nothing(dead_port: int) -> None:
    def refuse(request: Message, at: Address, source: Address) -> bytes:
        return refusal(request, 500)

    async with udp_server(refuse) as (_, server):
        finding = await probe_nat([server, ("127.0.0.1", dead_port)], ["127.0.0.1"])
    assert finding.outcome == "unknown"
    assert finding.words == "No server answered, so the NAT was not measured."
