"""Against a real coturn with two addresses."""

from __future__ import annotations

import pytest

from duetlink.settings import IceServer, Settings
from duetlink.tools.doctor.examine import examine
from duetlink.tools.doctor.finding import Finding
from duetlink.tools.doctor.nat_probe import measure_nat
from duetlink.tools.doctor.report import Report


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine delays a process. It answers everything but packets that are too large."""
    monkeypatch.setattr("duetlink.tools.doctor.mtu.TRY_TIMEOUT_S", 1.0)


async def ask(coturn: int, *urls: str, credential: str = "p") -> Report:
    servers = tuple(
        f"{kind}:127.0.0.1:{coturn}{rest}" for kind, _, rest in (url.partition("|") for url in urls)
    )
    return await examine(Settings(ice_servers=(IceServer(servers, "u", credential),)))


def named(report: Report, name: str) -> list[Finding]:
    return [finding for finding in report.findings if finding.name == name]


async def test_everything_that_it_offers_is_found(coturn: int) -> None:
    report = await ask(coturn, "stun", "turn", "turn|?transport=tcp")
    assert {finding.outcome for finding in report.findings if finding.name != "buffers"} == {"ok"}
    by_udp, by_tcp = named(report, "turn")
    assert by_udp.details["credentials"] == by_tcp.details["credentials"] == "accepted"
    for finding in (by_udp, by_tcp):
        assert finding.details["relay_round_trip_s"] > 0
    assert by_tcp.details["tcp_allocations"] is True
    assert named(report, "mtu")[0].details["mtu_bytes"] > 1500
    assert [rung.outlook for rung in report.rungs if rung.name in ("udp", "relay")] == ["likely", "likely"]


async def test_rfc_5780_through_two_addresses(coturn: int) -> None:
    # as if 127.0.0.1 were not this machine's own: then what coturn sees is a NAT that changes nothing
    nat = await measure_nat([("127.0.0.1", coturn)], [])
    assert nat is not None
    assert (nat.mapping, nat.filtering) == ("endpoint-independent", "endpoint-independent")
    assert nat.hairpin is True
    assert nat.old_name == "full cone"
    by_tcp = named(await ask(coturn, "stun"), "nat tcp")[0]
    assert by_tcp.details == {"translated": False, "mapping": "endpoint-independent"}


async def test_wrong_credentials(coturn: int) -> None:
    for finding in named(await ask(coturn, "turn", "turn|?transport=tcp", credential="wrong"), "turn"):
        assert finding.outcome == "failed"
        assert "refuses the credentials (401)" in finding.words


@pytest.mark.parametrize("coturn", ["--user-quota=1"], indirect=True)
async def test_a_quota_that_is_used_up(coturn: int) -> None:
    import asyncio

    from duetlink.tools.doctor.turn_client import TurnClient
    from duetlink.tools.doctor.udp_wire import UdpWire

    server = ("127.0.0.1", coturn)
    wire = await UdpWire.open(server)
    holder = TurnClient(wire, server, "u", "p")
    await holder.allocate("udp")
    (finding,) = named(await ask(coturn, "turn"), "turn")
    await holder.release()
    wire.close()
    await asyncio.sleep(0)
    assert finding.outcome == "limited"
    assert "(486)" in finding.words


@pytest.mark.parametrize("coturn", ["--no-tcp-relay"], indirect=True)
async def test_a_server_without_rfc_6062(coturn: int) -> None:
    (finding,) = named(await ask(coturn, "turn|?transport=tcp"), "turn")
    assert finding.outcome == "ok"
    assert finding.details["tcp_allocations"] is False
