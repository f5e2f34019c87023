"""Punched TCP through real gateways: two helpers, their signals handed over as by kernels."""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from duetlink.net.carrier.configuration import Configuration
from duetlink.net.carrier.drivers import punch
from duetlink.net.paths.attempt import ATTEMPT_TIMEOUT_S
from duetlink.settings import IceServer
from tests.lab.lab import Host, Lab
from tests.lab.servers import ice_servers

pytestmark = pytest.mark.slow

# what the gateway of a host answers to a connection that nobody inside has begun
RESET = """
table inet resets {
  chain input { type filter hook input priority -10; iifname "wan" tcp flags syn reject with tcp reset; }
}
"""


class Helper:
    """`python -m duetlink.net.carrier` on a host."""

    def __init__(self, host: Host, configuration: Configuration) -> None:
        arguments = [sys.executable, "-m", "duetlink.net.carrier"]
        self._process = host.popen(
            arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self._write(configuration.to_json())
        self.outcome: dict[str, Any] = {}
        self.over = threading.Event()

    def relay(self, other: Helper, delay_s: float) -> None:
        """Hand over what this one says, until it is up or down and all of that has arrived."""
        assert self._process.stdout is not None
        underway = []
        for line in self._process.stdout:
            event = json.loads(line)
            if "signal" in event:
                underway.append(
                    threading.Timer(delay_s, other._write, [json.dumps({"signal": event["signal"]})])
                )
                underway[-1].start()
            elif "up" in event or "down" in event:
                self.outcome = event
                break
        for timer in underway:
            timer.join()  # whoever closes the other's input may do it now
        if self.outcome:
            self.over.set()

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        with suppress(OSError, ValueError):  # it has ended, and said why; or this test has given it up
            self._process.stdin.write(line + "\n")

    def close(self) -> None:
        """End it as a kernel does, which is time enough to give back what the router gave."""
        assert self._process.stdin is not None
        with suppress(OSError):  # it has ended, and a signal was still to be written
            self._process.stdin.close()
        self._process.wait(60)


def outcome(
    one: Host,
    other: Host,
    *,
    delay_s: float = 0.0,
    map_port: bool = False,
) -> list[str]:
    """How each of the two reaches the other, or why it does not. A signal takes `delay_s`."""
    key = secrets.token_bytes(32)
    with ExitStack() as stack:
        helpers = []
        for index, host in enumerate((one, other)):
            servers = tuple(IceServer.from_json(entry) for entry in ice_servers())
            helpers.append(Helper(host, Configuration("punched", index == 0, key, servers, map_port, 1)))
            stack.callback(helpers[-1].close)
        for helper, to in zip(helpers, reversed(helpers), strict=True):
            threading.Thread(target=helper.relay, args=(to, delay_s), daemon=True).start()
        for helper in helpers:
            assert helper.over.wait(60)
        return [
            helper.outcome["up"]["description"] if "up" in helper.outcome else helper.outcome["down"]["why"]
            for helper in helpers
        ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("open", "port-restricted"),
        ("port-restricted", "port-restricted"),
        ("full-cone", "double-nat"),
        ("address-restricted", "udp-blocked"),
        ("symmetric", "open"),
        ("ipv6", "ipv6"),
    ],
)
def test_a_connection_comes_about_where_both_networks_allow_it(lab: Lab, one: str, other: str) -> None:
    for words in outcome(lab.host(one), lab.host(other)):
        assert words.startswith("TCP, ")


@pytest.mark.parametrize("delay_ms", [5, 40])
def test_gateways_that_reset_what_comes_too_early_do_not_prevent_it(lab: Lab, delay_ms: int) -> None:
    hosts = lab.host("port-restricted"), lab.host("port-restricted")
    for host in hosts:
        assert host.gateway is not None
        host.gateway.namespace.nft(RESET)
        lab.shape(host, delay_ms=delay_ms)
    # signals go by way of some server, and take as long as packets
    for words in outcome(*hosts, delay_s=2 * delay_ms / 1000):
        assert words.startswith("TCP, ")


def test_lost_packets_delay_it(lab: Lab) -> None:
    """A fifth of what is sent is lost on one of the two lines, so that the kernel's waiting for an
    acknowledgement doubles beyond an attempt's time once in some thirty; kernels then try again.
    """
    hosts = lab.host("port-restricted"), lab.host("double-nat")
    for host in hosts:
        lab.shape(host, delay_ms=10, loss=0.1)
    for _ in range(3):
        words = outcome(*hosts, delay_s=0.02)
        if all(one.startswith("TCP, ") for one in words):
            return
    pytest.fail(f"three times: {words}")


def test_hosts_behind_one_gateway_that_turns_their_packets_around_meet(lab: Lab) -> None:
    gateway = lab.gateway("port-restricted", hairpin=True, isolated=True)
    for words in outcome(lab.host(gateway), lab.host(gateway)):
        assert words.startswith("TCP, ")


@pytest.mark.parametrize(("one", "other"), [("port-restricted", "symmetric"), ("only-443", "open")])
def test_where_none_comes_about_the_reason_is_told_while_the_kernel_waits(
    lab: Lab, one: str, other: str
) -> None:
    hosts = lab.host(one), lab.host(other)
    assert "a NAT or a firewall is too strict for TCP" in outcome(*hosts)[0]
    assert punch.CONNECT_TIMEOUT_S < ATTEMPT_TIMEOUT_S


# miniupnpd keeps its rules in chains of its own; what they let in is then known to be translated
UPNP_CHAINS = """
table inet duetlink_upnp {
  chain miniupnpd {
  }
  chain prerouting_miniupnpd {
  }
  chain postrouting_miniupnpd {
  }
  chain prerouting {
    type nat hook prerouting priority dstnat;
    jump prerouting_miniupnpd
  }
}
table inet filter {
  chain input {
    iifname "lan1" accept
  }
}
"""
UPNP_CONFIGURATION = """
ext_ifname=wan
listening_ip=lan1
enable_natpmp=no
enable_upnp=yes
secure_mode=yes
upnp_table_name=duetlink_upnp
upnp_nat_table_name=duetlink_upnp
upnp_forward_chain=miniupnpd
upnp_nat_chain=prerouting_miniupnpd
upnp_nat_postrouting_chain=postrouting_miniupnpd
uuid=12428a37-4c0e-40ba-8645-764192c7047c
allow 1024-65535 192.168.1.0/24 1024-65535
"""


def test_a_port_of_the_router_lets_two_symmetric_networks_connect(lab: Lab, tmp_path: Path) -> None:
    if shutil.which("miniupnpd") is None:
        pytest.skip("miniupnpd is not installed (apt-get install miniupnpd)")
    one, other = lab.host("symmetric"), lab.host("symmetric")
    assert one.gateway is not None
    router = one.gateway.namespace
    router.nft(UPNP_CHAINS)
    configuration = tmp_path / "miniupnpd.conf"
    configuration.write_text(UPNP_CONFIGURATION)
    command = ["miniupnpd", "-d", "-f", str(configuration), "-P", str(tmp_path / "pid")]
    daemon = router.popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        found = outcome(one, other, map_port=True)
        deadline_s = time.monotonic() + 3.0
        while "dnat" in (rules := router.configure(["nft", "list", "table", "inet", "duetlink_upnp"])):
            if time.monotonic() > deadline_s:
                break
    finally:
        daemon.kill()
        log = daemon.communicate()[0]
    for words in found:
        assert words.startswith("TCP, "), log
    assert "dnat" not in rules, f"the port was not given back: {log}"
