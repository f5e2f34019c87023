"""The rung `relay` chooses between the tunnel and a stream, the same on both sides."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from duetlink.errors import DuetError, PathUnavailable
from duetlink.net.carrier import ice, relay, stream_relay
from duetlink.net.carrier.driver import Established
from duetlink.net.carrier.relay import establish
from tests.net.carrier.conftest import establish_both, make_sessions


class Way(Established):
    def __init__(self, description: str) -> None:
        self.description = description
        self.closed = False

    async def attach(self, protocol: asyncio.Protocol) -> asyncio.Transport:
        raise NotImplementedError

    async def close(self) -> None:
        self.closed = True


class Drivers:
    """In place of the two: each exchanges one message, and does then as it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[Way] = []
        self.does = {"tunnel": "work", "stream": "work"}
        self.late = asyncio.Event()  # so late that the stream has come to nothing by then
        monkeypatch.setattr(ice, "establish_relayed", self._driver("tunnel"))
        monkeypatch.setattr(stream_relay, "establish", self._driver("stream"))
        monkeypatch.setattr(relay, "PATIENCE_S", 0.05)

    def _driver(self, name: str) -> Any:
        async def establish(session: Any) -> Established:
            await session.send(name.encode())
            assert await session.receive() == name.encode()
            if self.does[name] in ("fail", "hang") and name == "stream":
                self.late.set()
            if self.does[name] == "fail":
                raise PathUnavailable(f"no {name}")
            if self.does[name] == "hang":
                await asyncio.get_running_loop().create_future()
            if self.does[name] == "late":
                await self.late.wait()
            self.made.append(Way(name))
            return self.made[-1]

        return establish


@pytest.fixture
def drivers(monkeypatch: pytest.MonkeyPatch) -> Drivers:
    return Drivers(monkeypatch)


@pytest.mark.parametrize(
    ("tunnel", "stream", "chosen"),
    [
        ("work", "work", "tunnel"),
        ("work", "hang", "tunnel"),
        ("fail", "work", "stream"),
        ("hang", "work", "stream"),
        ("late", "hang", "tunnel"),
        ("late", "fail", "tunnel"),
    ],
)
async def test_both_sides_take_the_same_way_and_drop_the_other(
    drivers: Drivers, tunnel: str, stream: str, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drivers.does = {"tunnel": tunnel, "stream": stream}
    if tunnel == "work":  # long before the stream is begun
        monkeypatch.setattr(relay, "PATIENCE_S", 60.0)
    async with asyncio.timeout(60):
        ways = await establish_both(establish, make_sessions())
    assert [way.description for way in ways] == [chosen, chosen]
    assert {way.description for way in drivers.made if not way.closed} == {chosen}


async def test_both_reasons_are_told_where_neither_comes_about(drivers: Drivers) -> None:
    drivers.does = {"tunnel": "fail", "stream": "fail"}
    async with asyncio.timeout(60):
        with pytest.raises(PathUnavailable, match="no tunnel; no stream"):
            await establish_both(establish, make_sessions())


@pytest.mark.parametrize("payload", [b"", b"x", b"cx", b"cs"])
@pytest.mark.usefixtures("drivers")
async def test_nonsense_of_a_peer_ends_the_attempt(payload: bytes) -> None:
    theirs, ours = make_sessions()
    running = asyncio.ensure_future(establish(ours))
    await theirs.send(payload)
    async with asyncio.timeout(60):
        with pytest.raises(DuetError):
            await running


async def test_a_defect_is_not_hidden(drivers: Drivers, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(session: Any) -> Established:
        raise ZeroDivisionError

    monkeypatch.setattr(ice, "establish_relayed", broken)
    with pytest.raises(ZeroDivisionError):
        await establish_both(establish, make_sessions())


async def test_a_cancelled_attempt_drops_what_came_about(drivers: Drivers) -> None:
    drivers.does = {"tunnel": "work", "stream": "hang"}
    _, ours = make_sessions()
    running = asyncio.ensure_future(establish(ours))
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert all(way.closed for way in drivers.made)
