"""Ports that the settings fix: who listens there, from when on, and what is said where one is taken."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

import duetlink
from duetlink import Settings, errors
from duetlink.net.fixed_port import check_free
from duetlink.net.link.endpoint import Endpoint
from duetlink.net.signaling import SessionCode
from duetlink.testing.faults import flight_client, link_of
from tests.free_port import free_port


def answers(port: int) -> bool:
    with socket.socket() as dialling:
        dialling.settimeout(5)
        return dialling.connect_ex(("127.0.0.1", port)) != errno.ECONNREFUSED


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("", free_port())) as other:
        yield other.getsockname()[1]


def test_both_servers_listen_at_the_ports_of_the_settings_from_the_launch_on() -> None:
    signaling, flight = free_port(), free_port()
    settings = Settings(signaling_port=signaling, flight_port=f"{flight}-{flight}", only=("tcp",))
    with duetlink.launch(settings=settings) as owner:
        assert str(SessionCode.parse(str(owner.code)).server).endswith(f":{signaling}")
        assert answers(signaling)
        assert answers(flight)
        with duetlink.join(str(owner.code), settings=Settings(only=("tcp",))) as scientist:
            owner.share(b"x" * 200_000, "scans")
            pending = scientist.wait_object("scans", 20).request()
            owner.wait_request(20).approve()
            assert pending.result(20) == b"x" * 200_000
            assert owner.statistics().path == "tcp"
            server = scientist_dials(scientist)
            assert server == flight
        with duetlink.launch(settings=settings, keep=True) as another:  # on the same two servers
            assert str(SessionCode.parse(str(another.code)).server).endswith(f":{signaling}")
    assert not answers(flight)
    assert not answers(signaling)


def scientist_dials(scientist: duetlink.Duet) -> int:
    link = link_of(scientist)
    client = flight_client(link.path_selector.best)
    return int(client.address.rpartition(":")[2])


@pytest.mark.parametrize("setting", ["signaling_port", "flight_port"])
def test_a_port_that_is_taken_is_an_error_of_launch_that_names_the_setting(setting: str, taken: int) -> None:
    ports: dict[str, Any] = {setting: taken}
    with pytest.raises(errors.PortUnavailable, match=rf"{setting}={taken}: .*Address already in use.*range"):
        duetlink.launch(settings=Settings(**ports))
    assert len(duetlink.duets) == 0


def test_a_range_that_is_taken_is_an_error_that_counts_its_ports(taken: int) -> None:
    with pytest.raises(errors.PortUnavailable, match=rf"flight_port='{taken}-{taken}'|flight_port={taken}"):
        duetlink.join("7-crossover-clockwork", settings=Settings(flight_port=f"{taken}-{taken}"))


@pytest.mark.parametrize("setting", ["signaling_port", "flight_port"])
def test_a_free_port_of_a_range_is_taken(setting: str, taken: int) -> None:
    ports: dict[str, Any] = {setting: f"{taken}-{taken + 20}"}
    settings = Settings(**ports)
    with duetlink.launch(settings=settings) as owner:
        assert any(answers(port) for port in range(taken + 1, taken + 21))
        assert owner.state == "waiting"


def test_two_kernels_never_share_a_flight_port() -> None:
    port = free_port()
    launching = (
        "import duetlink\n"
        "try:\n"
        f"    duetlink.launch(settings=duetlink.Settings(flight_port={port}))\n"
        "except duetlink.errors.PortUnavailable as error:\n"
        "    print(error)\n"
    )
    with duetlink.launch(settings=Settings(flight_port=port)):
        second = subprocess.run([sys.executable, "-c", launching], capture_output=True, text=True, timeout=60)
    assert second.stdout.startswith(f"flight_port={port}: nothing can listen at this port"), second


def test_a_kernel_has_one_signaling_port() -> None:
    one, other = free_port(), free_port()
    with (
        duetlink.launch(settings=Settings(signaling_port=one)),
        pytest.raises(errors.SettingError, match=rf"{other}.*listens at port {one} already"),
    ):
        duetlink.launch(settings=Settings(signaling_port=other), keep=True)


@pytest.mark.parametrize("value", [0, -1, 65536, True, "", "http", "9010-9000", "9000-", "9000-70000", 9.5])
def test_what_is_no_port_or_range_is_refused(value: object) -> None:
    with pytest.raises(errors.SettingError, match=r"flight_port=.* is no TCP port.*'9000-9010'"):
        Settings(flight_port=value)  # type: ignore[arg-type]


def test_a_port_or_range_can_be_said_by_the_environment() -> None:
    settings = Settings.from_environment(
        {"DUETLINK_SIGNALING_PORT": "9000", "DUETLINK_FLIGHT_PORT": "9001-9003"}
    )
    assert settings.signaling_ports == range(9000, 9001)
    assert settings.flight_ports == range(9001, 9004)
    assert Settings().signaling_ports is None


def test_a_group_listens_at_its_port_or_says_that_it_is_taken(taken: int) -> None:
    flight = free_port()
    with duetlink.group(size=2, settings=Settings(flight_port=flight)):
        assert answers(flight)
    assert not answers(flight)
    with pytest.raises(errors.PortUnavailable, match=f"flight_port={taken}: nothing can listen"):
        duetlink.group(size=2, settings=Settings(flight_port=taken))


async def test_kernels_that_start_together_take_different_ports_of_a_range(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = free_port()
    settings = Settings(flight_port=f"{first}-{first + 30}")
    both_found_it_free = threading.Barrier(2)

    def check(host: str, port: int) -> None:
        check_free(host, port)
        with contextlib.suppress(threading.BrokenBarrierError):
            both_found_it_free.wait(0.5)

    monkeypatch.setattr("duetlink.net.flight.server.check_free", check)
    endpoints = [Endpoint() for _ in range(2)]
    try:
        await asyncio.gather(*(endpoint.open_fixed(settings) for endpoint in endpoints))
        sockets = psutil.Process().net_connections("tcp")
        assert (
            len({one.laddr.port for one in sockets if one.status == "LISTEN"} & {*range(first, first + 31)})
            == 2
        )
    finally:
        for endpoint in endpoints:
            await endpoint.close()
