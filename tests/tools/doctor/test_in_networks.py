"""The doctor in networks of every kind: real gateways, a real coturn with two addresses."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.lab import Host, Lab
from tests.lab.namespace import unsupported

pytestmark = pytest.mark.slow

EI, APD = "endpoint-independent", "address-and-port-dependent"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    if why := unsupported():
        pytest.skip(why)
    with Lab() as lab:
        yield lab


def examine(host: Host) -> dict[str, Any]:
    """The command's report on that host, and its exit status."""
    command = [sys.executable, "-m", "duetlink", "doctor", "--json"]
    process = host.popen(command, stdout=subprocess.PIPE, text=True)
    out, _ = process.communicate(timeout=100)
    return {"status": process.returncode, **json.loads(out)}


def named(report: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [finding for finding in report["findings"] if finding["name"] == name]


def finished(report: dict[str, Any]) -> bool:
    """Whether the time sufficed for every question."""
    return not any("was not finished within" in finding["words"] for finding in report["findings"])


# kind: (old name, mapping), outlook of tcp, punched, udp, relay
KINDS = {
    "open": (("no NAT", EI), "likely some likely likely"),
    "full-cone": (("cone", EI), "some some likely likely"),
    "port-restricted": (("cone", EI), "some some likely likely"),
    "double-nat": (("cone", EI), "some some likely likely"),
    "symmetric": (("symmetric", APD), "some unlikely some likely"),
    "ipv6": (("no NAT", EI), "some some likely likely"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_kind_of_nat_is_named(lab: Lab, kind: str) -> None:
    named_so, outlooks = KINDS[kind]
    report = examine(lab.host(kind))
    (nat,) = named(report, "nat")
    assert (nat["details"]["old_name"], nat["details"]["mapping"]) == named_so
    assert " ".join(rung["outlook"] for rung in report["rungs"]) == outlooks
    assert named(report, "udp")[0]["outcome"] == "ok"
    assert [finding["outcome"] for finding in named(report, "turn")] == ["ok"] * 4
    assert named(report, "signaling")[0]["outcome"] == "ok"
    assert report["status"] == 0
    assert finished(report)


# kind: outcomes of turn by UDP, TCP, TCP on 443, TLS on 443; outlook
BLOCKED = {
    "udp-blocked": ("failed ok ok ok", "some unknown unlikely likely"),
    "only-443": ("failed failed ok ok", "some unknown unlikely likely"),
}


@pytest.mark.parametrize("kind", BLOCKED)
def test_blocked_udp_is_said_and_the_relay_that_is_left(lab: Lab, kind: str) -> None:
    turns, outlooks = BLOCKED[kind]
    report = examine(lab.host(kind))
    (udp,) = named(report, "udp")
    assert udp["words"] == "UDP is blocked: servers answer by TCP, none by UDP."
    assert " ".join(finding["outcome"] for finding in named(report, "turn")) == turns
    assert " ".join(rung["outlook"] for rung in report["rungs"]) == outlooks
    assert report["verdict"] == "Most peers can be reached from here, by relay."
    assert report["status"] == 0
    assert finished(report)


def test_a_network_that_is_cut_off(lab: Lab) -> None:
    host = lab.host("open")
    lab.cut(host)
    report = examine(host)
    assert not report["reachable"]
    assert report["status"] == 1
    assert report["verdict"] == "Peers in other networks cannot be reached from here."
