"""Every kind of network of the lab is what it says: measured with plain sockets, nothing of duetlink."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from tests.lab import servers
from tests.lab.gateway import Gateway
from tests.lab.lab import Host, Lab

pytestmark = pytest.mark.slow

PORT = 40_000


def nat(host: Host) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(host.probe("nat", servers.TURN, servers.TURN_SECOND))
    return found


def public(host: Host) -> str:
    return host.line.address(2)


# -- UDP -----------------------------------------------------------------------------------------------------

# kind: one public port for all destinations; let in from another port of a server, from another server
UDP = {
    "open": (True, True, True),
    "full-cone": (True, True, True),
    "address-restricted": (True, True, False),
    "port-restricted": (True, False, False),
    "double-nat": (True, False, False),
    "symmetric": (False, False, False),
}


@pytest.mark.parametrize("kind", UDP)
def test_mapping_and_filtering_are_those_of_the_kind(lab: Lab, kind: str) -> None:
    host = lab.host(kind)
    one_port, from_port, from_address = UDP[kind]
    seen = nat(host)
    mapped = seen["mapped"]
    assert [address.split(":")[0] for address in mapped] == [public(host)] * 3
    assert len(set(mapped)) == (1 if one_port else 3)
    assert (seen["from_port"], seen["from_address"]) == (from_port, from_address)
    # a cone keeps the port, as most home routers do
    assert (mapped[0].split(":")[1] == str(seen["local_port"])) == one_port
    translated = host.address != public(host)
    assert translated == (kind != "open")


@pytest.mark.parametrize("kind", ["udp-blocked", "only-443"])
def test_no_udp_passes_where_it_is_blocked(lab: Lab, kind: str) -> None:
    assert nat(lab.host(kind))["mapped"] == [None, None, None]


def test_two_hosts_behind_one_cone_do_not_mix(lab: Lab) -> None:
    gateway = lab.gateway("full-cone")
    one, other = lab.host(gateway), lab.host(gateway)
    for host in (one, other):
        seen = nat(host)
        assert seen["from_address"] is True
        assert seen["mapped"][0] == f"{public(host)}:{seen['local_port']}"
    assert one.address != other.address


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("open", "answered"),
        ("full-cone", "answered"),
        ("address-restricted", "silent"),
        ("port-restricted", "silent"),
    ],
)
def test_a_stranger_is_let_in_by_full_cones_only(lab: Lab, kind: str, expected: str) -> None:
    host, stranger = lab.host(kind), lab.host("port-restricted")
    came_from = host.begin_probe("answer", PORT, servers.TURN)
    assert stranger.probe("ask", public(host), PORT, PORT + 1) == expected
    assert came_from() == (f"{public(stranger)}:{PORT + 1}" if expected == "answered" else "silent")


# -- TCP -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["open", "port-restricted", "symmetric", "double-nat", "udp-blocked"])
def test_tcp_reaches_an_open_host(lab: Lab, kind: str) -> None:
    server, host = lab.host("open"), lab.host(kind)
    came_from = server.begin_probe("listen", PORT)
    assert host.probe("dial", server.address, PORT) == "connected"
    assert came_from() == public(host)
    assert server.probe("dial", server.address, PORT + 1) == "refused"


@pytest.mark.parametrize(
    "kind", ["full-cone", "port-restricted", "symmetric", "double-nat", "udp-blocked", "only-443"]
)
def test_tcp_from_outside_meets_silence_at_a_gateway(lab: Lab, kind: str) -> None:
    host, stranger = lab.host(kind), lab.host("open")
    assert stranger.probe("dial", public(host), PORT) == "silent"


def test_only_443_means_only_443(lab: Lab) -> None:
    host = lab.host("only-443")
    assert host.probe("dial", servers.SIGNALING, 443) == "connected"
    assert host.probe("dial", servers.TURN, 443) == "connected"
    assert host.probe("dial", servers.SIGNALING, servers.SIGNALING_PORT) == "silent"
    assert host.probe("dial", servers.TURN, servers.STUN_PORT) == "silent"


def test_port_restricted_hosts_connect_by_simultaneous_open(lab: Lab) -> None:
    one, other = lab.host("port-restricted"), lab.host("udp-blocked")
    assert punch(one, other) == ["connected", "connected"]


def test_a_symmetric_host_cannot_be_punched(lab: Lab) -> None:
    assert punch(lab.host("port-restricted"), lab.host("symmetric")) == ["silent", "silent"]


def punch(one: Host, other: Host) -> list[str]:
    results = ["", ""]

    def run(index: int, here: Host, there: Host) -> None:
        results[index] = here.probe("punch", public(there), PORT + 2 - index, PORT + 1 + index, servers.TURN)

    threads = [
        threading.Thread(target=run, args=(0, one, other)),
        threading.Thread(target=run, args=(1, other, one)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


# -- one gateway, two hosts ----------------------------------------------------------------------------------


def behind(lab: Lab, *, hairpin: bool, isolated: bool) -> tuple[Gateway, Host, Host]:
    gateway = lab.gateway("port-restricted", hairpin=hairpin, isolated=isolated)
    return gateway, lab.host(gateway), lab.host(gateway)


def test_hosts_of_one_network_see_each_other(lab: Lab) -> None:
    _, one, other = behind(lab, hairpin=False, isolated=False)
    came_from = other.begin_probe("listen", PORT)
    assert one.probe("dial", other.address, PORT) == "connected"
    assert came_from() == one.address


def test_isolated_hosts_do_not(lab: Lab) -> None:
    _, one, other = behind(lab, hairpin=False, isolated=True)
    assert one.probe("dial", other.address, PORT) == "silent"
    assert punch(one, other) == ["silent", "silent"]


def test_with_hairpinning_isolated_hosts_meet_at_the_public_address(lab: Lab) -> None:
    _, one, other = behind(lab, hairpin=True, isolated=True)
    came_from = other.begin_probe("answer", PORT, servers.TURN)
    assert one.probe("ask", public(other), PORT, PORT + 1) == "answered"
    assert came_from() == f"{public(one)}:{PORT + 1}"
    assert one.probe("dial", other.address, PORT) == "silent"
    assert punch(one, other) == ["connected", "connected"]


def test_without_hairpinning_the_public_address_is_silent_inside(lab: Lab) -> None:
    _, one, other = behind(lab, hairpin=False, isolated=True)
    came_from = other.begin_probe("answer", PORT, servers.TURN)
    assert one.probe("ask", public(other), PORT, PORT + 1) == "silent"
    assert came_from() == "silent"


# -- IPv6 ----------------------------------------------------------------------------------------------------


def test_an_ipv6_host_has_no_ipv4_and_a_firewall(lab: Lab) -> None:
    host, other = lab.host("ipv6"), lab.host("ipv6")
    assert host.probe("dial", servers.SIGNALING6, servers.SIGNALING_PORT) == "connected"
    assert host.probe("alive", servers.TURN6) == "alive"
    assert ":" in host.address
    assert "inet " not in host.run(["ip", "-4", "addr", "show", "dev", "eth0"])
    assert other.probe("dial", host.address, PORT) == "silent"
