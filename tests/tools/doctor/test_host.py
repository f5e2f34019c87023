"""What this machine gives, said of the machine that runs the test and of smaller ones."""

from __future__ import annotations

import os
import resource
import socket
import sys
from typing import Any

import pytest

from duetlink.tools.doctor import host
from duetlink.tools.doctor.addresses import OwnAddress, addresses_finding, own_addresses
from duetlink.tools.doctor.host import host_findings

linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux's own")


def test_every_question_about_the_host_is_answered() -> None:
    findings = host_findings()
    assert [finding.name for finding in findings] == [
        "buffers",
        "batches",
        "memory",
        "descriptors",
        "versions",
    ]
    assert {finding.outcome for finding in findings} <= {"ok", "limited"}
    assert {"python", "duetlink", "aiortc", "aioice", "pyarrow", "system"} <= set(findings[-1].details)


def test_buffers_are_measured_by_asking_for_them() -> None:
    few = host.buffers_finding(64 * 1024)
    assert (few.outcome, few.advice) == ("ok", "")
    many = host.buffers_finding(2**30 - 1)
    assert many.outcome == "limited"
    assert 0 < many.details["receive_bytes"] < 2**30 - 1
    assert "sysctl" in many.advice


def test_without_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duetlink.net.tunnel.udp_port.UdpPort.offload", False)
    finding = host.batches_finding()
    assert finding.outcome == "limited"
    assert finding.details == {"offload": False}


@linux
def test_without_sealed_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "memfd_create", refuse)
    assert host.memory_finding().outcome == "limited"


@linux
def test_with_few_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (256, 256))
    finding = host.descriptors_finding()
    assert finding.outcome == "limited"
    assert finding.details == {"limit": 256}
    assert finding.advice.startswith("ulimit -n 1024")


# -- addresses -----------------------------------------------------------------------------------------------


def test_this_machine_has_a_loopback_address() -> None:
    hosts = [one.host for one in own_addresses()]
    assert "127.0.0.1" in hosts
    for one in hosts:
        socket.inet_pton(socket.AF_INET6 if ":" in one else socket.AF_INET, one)


def finding_of(*addresses: tuple[str, str]) -> Any:
    return addresses_finding([OwnAddress(host, interface) for host, interface in addresses])


def test_loopback_and_link_local_addresses_are_no_network() -> None:
    finding = finding_of(("127.0.0.1", "lo"), ("::1", "lo"), ("169.254.3.4", "eth0"), ("fe80::1", "eth0"))
    assert finding.outcome == "failed"
    assert finding.details["ipv4"] == finding.details["ipv6"] == []


def test_private_public_and_shared_addresses_are_told_apart() -> None:
    finding = finding_of(
        ("192.168.1.2", "eth0"), ("100.64.9.9", "eth1"), ("5.5.1.2", "eth2"), ("2a00::2", "eth2")
    )
    assert finding.outcome == "ok"
    assert finding.details["public"] == ["5.5.1.2", "2a00::2"]
    assert finding.details["carrier_grade"] == ["100.64.9.9"]
    assert "behind a carrier's NAT" in finding.words
    assert finding.details["vpn"] == []


@pytest.mark.parametrize("interface", ["wg0", "tun0", "utun4", "tailscale0", "ppp0"])
def test_a_vpn_is_guessed_from_its_interface(interface: str) -> None:
    finding = finding_of(("10.0.0.2", "eth0"), ("10.8.0.2", interface))
    assert finding.details["vpn"] == [interface]
    assert f"A VPN seems to be on ({interface})" in finding.words
    assert finding.advice


def test_many_addresses_are_not_all_shown() -> None:
    finding = finding_of(*((f"10.0.0.{number}", "eth0") for number in range(1, 9)))
    assert "and 5 more" in finding.words
    assert len(finding.details["ipv4"]) == 8
