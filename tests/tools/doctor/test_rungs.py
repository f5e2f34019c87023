"""The verdict, from every kind of network."""

from __future__ import annotations

from typing import Any

import pytest

from duetlink.tools.doctor.finding import Finding
from duetlink.tools.doctor.report import Report
from duetlink.tools.doctor.rungs import expect_rungs


def network(
    *,
    mapping: str = "unknown",
    udp: str = "ok",
    public: tuple[str, ...] = (),
    turn: str | None = None,
    addresses: str = "ok",
) -> list[Finding]:
    def finding(name: str, outcome: Any, **details: Any) -> Finding:
        return Finding(name, outcome, "", "", details)

    nat = {"mapping": mapping} if mapping != "unknown" else {}
    return [
        finding("addresses", addresses, public=public),
        finding("udp", udp, asked=1, answered=int(udp == "ok"), answered_by_tcp=int(bool(turn))),
        finding("nat", "ok", **nat),
        finding("stun", "ok" if udp == "ok" else "failed", url="stun:s", transport="udp"),
        *([finding("turn", turn, url="turn:t", transport="tcp")] if turn else []),
    ]


EI, AD, APD = "endpoint-independent", "address-dependent", "address-and-port-dependent"


@pytest.mark.parametrize(
    ("findings", "outlooks", "reachable"),
    [
        # tcp, punched, udp, relay
        (network(mapping=EI, public=("5.5.1.2",)), "likely some likely unlikely", True),
        (network(mapping=EI, public=("2a00::1",)), "some some likely unlikely", True),
        (network(mapping=EI), "some some likely unlikely", True),
        (network(mapping=EI, turn="ok"), "some some likely likely", True),
        (network(mapping=APD), "some unlikely some unlikely", True),
        (network(mapping=AD), "some unlikely some unlikely", True),
        (network(mapping="endpoint-dependent", turn="ok"), "some unlikely some likely", True),
        (network(), "some unknown some unlikely", True),
        (network(udp="unknown"), "some unknown unknown unlikely", False),
        (network(udp="failed", turn="ok"), "some unknown unlikely likely", True),
        (network(udp="failed", turn="failed"), "some unknown unlikely unlikely", False),
        (network(udp="failed", turn="limited"), "some unknown unlikely unlikely", False),
        (network(udp="failed", public=("5.5.1.2",)), "some unknown unlikely unlikely", False),
        (network(udp="failed", turn="ok", public=("5.5.1.2",)), "likely unknown unlikely likely", True),
        (network(udp="failed", turn="unknown"), "some unknown unlikely unknown", False),
        (network(addresses="failed", udp="failed"), "unlikely unlikely unlikely unlikely", False),
    ],
)
def test_what_each_network_allows(findings: list[Finding], outlooks: str, reachable: bool) -> None:
    rungs = expect_rungs(findings)
    assert [rung.name for rung in rungs] == ["tcp", "punched", "udp", "relay"]
    assert " ".join(rung.outlook for rung in rungs) == outlooks
    assert all(rung.why for rung in rungs)
    assert Report(tuple(findings), 0.0).reachable is reachable


def test_the_verdict_is_one_sentence() -> None:
    def verdict(findings: list[Finding]) -> str:
        return Report(tuple(findings), 0.0).verdict

    assert verdict(network(mapping=EI, turn="ok")) == "Most peers can be reached from here, by udp and relay."
    assert verdict(network(mapping=APD)) == "Some peers can be reached from here, by tcp and udp."
    assert (
        verdict(network(udp="failed", turn="failed"))
        == "Peers in other networks cannot be reached from here."
    )
    assert verdict(network(addresses="failed")) == "No peer on another machine can be reached from here."
    nothing_configured = [finding for finding in network(udp="unknown") if finding.name != "stun"]
    assert verdict(nothing_configured) == (
        "Peers of the same network or VPN can be reached from here; "
        "for others, configure STUN and TURN servers."
    )


def test_what_the_settings_leave_out_is_not_expected() -> None:
    findings = network(mapping=EI, turn="ok")
    report = Report(tuple(findings), 0.0, ("tcp", "udp", "channel"))
    assert [rung.outlook for rung in report.rungs] == ["some", "unlikely", "likely", "unlikely"]
    assert report.rungs[3].why == "your settings leave it out"
    assert report.verdict == "Most peers can be reached from here, by udp."
