"""The whole examination and its command: bounded, never a secret, an exit status that can be relied on."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

import duetlink
from duetlink.net.signaling.server import MailboxServer
from duetlink.settings import IceServer, Settings
from duetlink.tools.cli import main
from duetlink.tools.doctor import examine as examine_module
from duetlink.tools.doctor.examine import MAX_URLS, examine
from duetlink.tools.doctor.finding import Finding
from duetlink.tools.doctor.report import Report
from tests.net.stun.fake_server import FakeTurn, udp_server


def servers(*urls: str, username: str | None = "u", credential: str | None = "p") -> tuple[IceServer, ...]:
    return (IceServer(urls, username, credential),)


def named(report: Report, name: str) -> list[Finding]:
    return [finding for finding in report.findings if finding.name == name]


async def never(host: str) -> list[str]:
    await asyncio.Event().wait()
    raise AssertionError


# -- the whole -----------------------------------------------------------------------------------------------


async def test_a_network_where_everything_works() -> None:
    async with udp_server(FakeTurn()) as (_, (host, port)):
        report = await examine(Settings(ice_servers=servers(f"stun:{host}:{port}", f"turn:{host}:{port}")))
    assert [named(report, name)[0].outcome for name in ("udp", "nat", "stun", "turn")] == ["ok"] * 4
    assert report.reachable


async def test_without_servers_it_says_what_to_configure() -> None:
    report = await examine(Settings())
    assert report.reachable
    assert "configure STUN and TURN servers" in report.verdict
    assert named(report, "udp")[0].outcome == "unknown"


async def test_dns_that_never_answers_does_not_hang() -> None:
    settings = Settings(
        ice_servers=servers("stun:stun.example.org", "turn:turn.example.org", "turns:turn.example.org:443"),
        signaling="wss://meet.example.org",
    )
    report = await examine(settings, timeout_s=1.0, lookup=never)
    for name in ("stun", "turn", "signaling"):
        for finding in named(report, name):
            assert finding.outcome == "failed"
            assert "was not resolved within 0.25 s: DNS does not answer" in finding.words
    assert not report.reachable


async def test_dead_servers_are_given_up_when_the_time_is_over(dead_port: int) -> None:
    urls = [f"{kind}:127.0.0.1:{dead_port}" for kind in ("stun", "turn") for _ in range(5)]
    report = await examine(Settings(ice_servers=servers(*urls)), timeout_s=0.5)
    assert [finding.outcome for finding in named(report, "stun")] == ["unknown"] * 5
    assert "was not finished within 0.5 s" in named(report, "turn")[0].words
    assert not report.reachable


async def test_a_probe_that_falls_ill_is_one_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fall_ill(*arguments: Any) -> Finding:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(examine_module, "probe_nat", fall_ill)
    report = await examine(Settings())
    (nat,) = named(report, "nat")
    assert (nat.outcome, nat.words) == ("unknown", "nat could not be examined (ZeroDivisionError).")


async def test_urls_that_cannot_be_read_and_too_many_of_them(dead_port: int) -> None:
    urls = [f"stun:127.0.0.1:{dead_port}"] * (MAX_URLS + 5)
    report = await examine(Settings(ice_servers=servers("turn:ada:sesame@host", *urls)), timeout_s=0.5)
    assert len(named(report, "stun")) == MAX_URLS + 1
    (turn,) = named(report, "turn")
    assert turn.words == "A URL of server 1 in DUETLINK_ICE_SERVERS cannot be read."
    assert "sesame" not in report.json()


async def test_a_cancelled_examination_leaves_nothing(dead_port: int) -> None:
    settings = Settings(ice_servers=servers(f"stun:127.0.0.1:{dead_port}", "turn:turn.example.org"))
    task = asyncio.ensure_future(examine(settings, lookup=never))
    await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert asyncio.all_tasks() == {asyncio.current_task()}


# -- signaling -----------------------------------------------------------------------------------------------


async def test_a_signaling_server_that_answers_and_one_that_is_gone() -> None:
    server = MailboxServer()
    host, port = await server.start("127.0.0.1", 0)
    settings = Settings(signaling=f"ws://{host}:{port}")
    (there,) = named(await examine(settings), "signaling")
    await server.stop()
    (gone,) = named(await examine(settings), "signaling")
    assert (there.outcome, there.words) == ("ok", f"ws://{host}:{port} answers, and opens mailboxes.")
    assert gone.outcome == "failed"
    assert gone.words.startswith(f"no signaling server at ws://{host}:{port} (")


async def test_a_signaling_address_with_a_password_is_not_repeated() -> None:
    (finding,) = named(await examine(Settings(signaling="ws://ada:hunter2@meet.example.org")), "signaling")
    assert finding.outcome == "failed"
    assert "hunter2" not in str(finding)
    assert "ada" not in str(finding)


async def test_something_else_at_the_signaling_address() -> None:
    async def http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    other = await asyncio.start_server(http, "127.0.0.1", 0)
    port = other.sockets[0].getsockname()[1]
    (finding,) = named(await examine(Settings(signaling=f"ws://127.0.0.1:{port}")), "signaling")
    other.close()
    assert finding.outcome == "failed"
    assert "something else answers there" in finding.words


async def test_pairing_by_hand_needs_no_server() -> None:
    (finding,) = named(await examine(Settings(signaling="paste")), "signaling")
    assert finding.outcome == "ok"


# -- the command ---------------------------------------------------------------------------------------------


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(main, ("doctor", *arguments), env={"COLUMNS": "100", **environment})


@pytest.fixture
def turn_in_background() -> Iterator[str]:
    """URL of a fake TURN server that runs while a command does."""
    import threading

    loop, ready, stop = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    where: list[str] = []

    async def serve() -> None:
        async with udp_server(FakeTurn()) as (_, (host, port)):
            where.append(f"turn:{host}:{port}")
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    assert ready.wait(60)
    yield where[0]
    loop.call_soon_threadsafe(stop.set)
    thread.join(60)
    loop.close()


def test_the_command_prints_json_without_credentials_and_ends_well(
    turn_in_background: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    ice = [{"urls": [turn_in_background], "username": "ada-the-user", "credential": "hunter2"}]
    for arguments in (("--json",), ()):
        result = run(*arguments, DUETLINK_ICE_SERVERS=json.dumps(ice))
        assert result.exit_code == 0, result.output  # UDP goes out, though this server refuses
        assert "refuses the credentials (401)" in " ".join(result.output.split())
        for secret in ("ada-the-user", "hunter2"):
            assert secret not in result.output
            assert secret not in caplog.text
    report = json.loads(run("--json", DUETLINK_ICE_SERVERS=json.dumps(ice)).stdout)
    assert report["schema"] == "duetlink-doctor/1"
    assert set(report) == {"schema", "reachable", "verdict", "rungs", "findings", "took_s"}
    for finding in report["findings"]:
        assert set(finding) == {"name", "outcome", "words", "advice", "details"}
        assert finding["outcome"] in ("ok", "limited", "failed", "unknown")


def test_exit_status_one_where_no_peer_can_be_reached(dead_port: int) -> None:
    ice = json.dumps([{"urls": f"stun:127.0.0.1:{dead_port}"}])
    result = run("--timeout", "3", DUETLINK_ICE_SERVERS=ice)
    assert result.exit_code == 1
    assert result.output.splitlines()[-1].rstrip() == "Peers in other networks cannot be reached from here."


def test_a_bad_setting_is_one_line() -> None:
    result = run(DUETLINK_ICE_SERVERS="{")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("timeout", ["0", "-1", "1e9", "soon"])
def test_a_time_that_is_none_is_wrong_usage(timeout: str) -> None:
    assert run("--timeout", timeout).exit_code == 2


# -- of a duet -----------------------------------------------------------------------------------------------


def test_a_duet_reports_its_paths_open_and_closed() -> None:
    settings = Settings(only=("tcp", "channel"))
    with (
        duetlink.launch(settings=settings) as owner,
        duetlink.join(str(owner.code), settings=settings) as scientist,
    ):
        report = scientist.doctor()
        names = [finding.name for finding in report.findings]
        assert names[:2] == ["path tcp", "path channel"]
        assert "addresses" in names
        assert scientist.ping() > 0
    assert "path tcp" in [finding.name for finding in scientist.doctor().findings]
