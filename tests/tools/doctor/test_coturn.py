"""Against a real coturn with two addresses."""

from __future__ import annotations

import asyncio

import pytest
from aioice.turn import create_turn_endpoint

from duetlink.settings import IceServer, Settings
from duetlink.tools.doctor.examine import examine
from duetlink.tools.doctor.finding import Finding
from duetlink.tools.doctor.nat_probe import measure_nat
from duetlink.tools.doctor.report import Report


async def ask(coturn: int, *urls: str, credential: str = "p") -> Report:
    servers = tuple(
        f"{kind}:127.0.0.1:{coturn}{rest}" for kind, _, rest in (url.partition("|") for url in urls)
    )
    return await examine(Settings(ice_servers=(IceServer(servers, "u", credential),)))


def named(report: Report, name: str) -> list[Finding]:
    return [finding for finding in report.findings if finding.name == name]


async def test_everything_that_it_offers_is_found(coturn: int) -> None:
    report = await ask(coturn, "stun", "turn", "turn|?transport=tcp")
    assert {finding.outcome for finding in report.findings} == {"ok"}
    by_udp, by_tcp = named(report, "turn")
    assert by_udp.details["credentials"] == by_tcp.details["credentials"] == "accepted"
    assert [rung.outlook for rung in report.rungs if rung.name in ("udp", "relay")] == ["likely", "likely"]


async def test_rfc_5780_through_two_addresses(coturn: int) -> None:
    # as if 127.0.0.1 were not this machine's own: then what coturn sees is a NAT that changes nothing
    nat = await measure_nat([("127.0.0.1", coturn)], [])
    assert nat is not None
    assert (nat.mapping, nat.old_name) == ("endpoint-independent", "cone")


async def test_wrong_credentials(coturn: int) -> None:
    for finding in named(await ask(coturn, "turn", "turn|?transport=tcp", credential="wrong"), "turn"):
        assert finding.outcome == "failed"
        assert "refuses the credentials (401)" in finding.words


@pytest.mark.parametrize("coturn", ["--user-quota=1"], indirect=True)
async def test_a_quota_that_is_used_up(coturn: int) -> None:
    holder, _ = await create_turn_endpoint(asyncio.DatagramProtocol, ("127.0.0.1", coturn), "u", "p")
    (finding,) = named(await ask(coturn, "turn"), "turn")
    holder.close()
    await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}), return_exceptions=True)
    assert finding.outcome == "limited"
    assert "(486)" in finding.words
