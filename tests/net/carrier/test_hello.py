"""Who is the peer and who is not: the exchange by values, then the race against strangers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetlink.errors import PathUnavailable
from duetlink.net.carrier.drivers import race as race_of_wires
from duetlink.net.carrier.drivers.hello import GREETING_BYTES, PROOF_BYTES, CarrierHello
from duetlink.net.carrier.drivers.race import MAX_STRANGERS, Race
from duetlink.net.carrier.drivers.wire import TcpConnection

KEY, OTHER_KEY = bytes(32), bytes([1]) * 32


def pair() -> tuple[CarrierHello, CarrierHello]:
    return CarrierHello(KEY, "punched", controlling=True), CarrierHello(KEY, "punched", controlling=False)


# -- values --------------------------------------------------------------------------------------------------


def test_two_who_know_the_key_accept_one_another() -> None:
    one, other = pair()
    proofs = one.answer(other.greeting), other.answer(one.greeting)
    one.check(proofs[1])
    other.check(proofs[0])
    other.check_go(one.go)
    assert len(one.greeting) == GREETING_BYTES
    assert len(proofs[0]) == len(one.go) == PROOF_BYTES


def test_a_reflection_proves_nothing() -> None:
    for hello in pair():
        with pytest.raises(PathUnavailable, match="does not know the key"):
            hello.check(hello.answer(hello.greeting))


def test_a_proof_is_good_for_one_connection_one_role_one_rung_and_one_key() -> None:
    one, other = pair()
    one.answer(other.greeting)
    good = other.answer(one.greeting)
    again = CarrierHello(KEY, "punched", controlling=True)
    again.answer(other.greeting)
    with pytest.raises(PathUnavailable):
        again.check(good)
    for stranger in (
        CarrierHello(OTHER_KEY, "punched", controlling=False),
        CarrierHello(KEY, "relay", controlling=False),
        CarrierHello(KEY, "punched", controlling=True),
    ):
        fresh = CarrierHello(KEY, "punched", controlling=True)
        fresh.answer(stranger.greeting)
        with pytest.raises(PathUnavailable):
            fresh.check(stranger.answer(fresh.greeting))


def test_a_proof_is_no_go() -> None:
    one, other = pair()
    proof = one.answer(other.greeting)
    other.check(proof) if other.answer(one.greeting) else None
    for wrong in (proof, bytes(32), b""):
        with pytest.raises(PathUnavailable):
            other.check_go(wrong)


@given(st.binary(max_size=200))
def test_junk_is_refused(junk: bytes) -> None:
    one, other = pair()
    with pytest.raises(PathUnavailable):
        one.answer(junk)
    one.answer(other.greeting)
    for check in (one.check, one.check_go):
        with pytest.raises(PathUnavailable):
            check(junk)


# -- races ---------------------------------------------------------------------------------------------------

Connect = Callable[[Race, Race], Awaitable[None]]


@pytest.fixture
async def races() -> AsyncIterator[tuple[Race, Race]]:
    made = Race(KEY, "punched", controlling=True), Race(KEY, "punched", controlling=False)
    yield made
    for race in made:
        await race.close(keep=None)


async def connect(one: Race, other: Race) -> list[TcpConnection]:
    """A connection that enters both races."""
    wires = [await TcpConnection.adopt(sock) for sock in socket.socketpair()]
    for race, wire in zip((one, other), wires, strict=True):
        race.enter(wire)
    return wires


async def stranger(race: Race) -> socket.socket:
    """The far end of a connection that nobody knows."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    race.enter(await TcpConnection.adopt(ours))
    return theirs


async def read_to_end(sock: socket.socket) -> bytes:
    """All that comes until the other side ends the connection."""
    loop, data = asyncio.get_running_loop(), b""
    with contextlib.suppress(ConnectionError):
        while chunk := await loop.sock_recv(sock, 4096):
            data += chunk
    return data


async def test_both_sides_settle_on_the_same_one_of_several(races: tuple[Race, Race]) -> None:
    connections = [await connect(*races) for _ in range(5)]
    chosen = [await race.winner for race in races]
    assert chosen in connections
    for wire in chosen:
        wire.write(b"first")
    assert [await wire.read(5) for wire in chosen] == [b"first", b"first"]
    for race, wire in zip(races, chosen, strict=True):
        await race.close(keep=wire)
    losers = [wire for wires in connections for wire in wires if wire not in chosen]
    assert len(losers) == 8
    for wire in losers:
        with pytest.raises(OSError):
            await wire.read(1000)
    for wire in chosen:
        wire.abort()


@pytest.mark.parametrize("says", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 3, b"\x16\x03\x01" * 40, bytes(51)])
async def test_who_sends_junk_is_dropped_at_once(races: tuple[Race, Race], says: bytes) -> None:
    with await stranger(races[0]) as sock:
        sock.send(says)
        # our greeting, which tells nothing
        assert len(await read_to_end(sock)) == GREETING_BYTES
    assert not races[0].winner.done()


async def test_who_is_silent_is_dropped_at_the_limit(
    races: tuple[Race, Race], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(race_of_wires, "HELLO_TIMEOUT_S", 0.5)
    with await stranger(races[1]) as sock:
        assert len(await read_to_end(sock)) == GREETING_BYTES


async def test_who_comes_from_where_the_peer_is_expected_has_longer(
    races: tuple[Race, Race], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(race_of_wires, "HELLO_TIMEOUT_S", 0.0)
    with await stranger(races[0]) as sock:
        assert len(await read_to_end(sock)) in (0, GREETING_BYTES)
    for race in races:
        race.expect("")  # as the address of a socket of a pair reads
    wires = await connect(*races)
    assert [await race.winner for race in races] == wires
    for race, wire in zip(races, wires, strict=True):
        await race.close(keep=wire)
        wire.abort()


async def test_it_is_deserted_when_none_from_there_is_left(races: tuple[Race, Race]) -> None:
    with await stranger(races[0]):
        await races[0].deserted()
        races[0].expect("")
        sock = await stranger(races[0])
        waiting = asyncio.ensure_future(races[0].deserted())
        await asyncio.sleep(0)
        assert not waiting.done()
        sock.close()
        await waiting


async def test_who_reflects_is_dropped(races: tuple[Race, Race]) -> None:
    loop = asyncio.get_running_loop()
    for race in races:
        with await stranger(race) as sock:
            for size_bytes in (GREETING_BYTES, PROOF_BYTES):
                sock.send(await loop.sock_recv(sock, size_bytes))
            assert await read_to_end(sock) == b""
        assert not race.winner.done()


async def test_the_controlled_side_waits_for_the_choice_until_the_limit(
    races: tuple[Race, Race], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(race_of_wires, "HELLO_TIMEOUT_S", 0.5)
    wires = [await TcpConnection.adopt(sock) for sock in socket.socketpair()]
    races[1].enter(wires[1])
    hello = CarrierHello(KEY, "punched", controlling=True)
    wires[0].write(hello.greeting)
    wires[0].write(hello.answer(await wires[0].read(GREETING_BYTES)))
    hello.check(await wires[0].read(PROOF_BYTES))
    with pytest.raises(OSError):
        await wires[0].read(1)
    assert not races[1].winner.done()
    wires[0].abort()


async def test_many_silent_strangers_do_not_keep_the_peer_out(
    races: tuple[Race, Race], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(race_of_wires, "HELLO_TIMEOUT_S", 1000.0)
    socks = [await stranger(races[1]) for _ in range(3 * MAX_STRANGERS)]
    wires = await connect(*races)
    assert [await race.winner for race in races] == wires
    for sock in socks[:MAX_STRANGERS]:  # all but the last few were dropped to make room, before their time
        await read_to_end(sock)
    for sock in socks:
        sock.close()
    for race, wire in zip(races, wires, strict=True):
        await race.close(keep=wire)
        wire.abort()


async def test_closing_a_race_drops_everybody_even_the_winner() -> None:
    races = Race(KEY, "punched", controlling=True), Race(KEY, "punched", controlling=False)
    with await stranger(races[0]) as sock:
        wires = await connect(*races)
        await asyncio.gather(*(race.winner for race in races))
        entered = await TcpConnection.adopt(socket.socketpair()[0])
        races[0].enter(entered)
        for race in races:
            await race.close(keep=None)  # before the last one has taken its first step
        assert len(await read_to_end(sock)) in (0, GREETING_BYTES)
        for wire in (*wires, entered):
            with pytest.raises(OSError):
                await wire.read(1000)
