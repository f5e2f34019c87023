"""launch and join as people meet them when something is wrong, over real servers."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from aiohttp import web

import duetlink
from duetlink import errors, session
from duetlink.base.runtime.loop import LoopThread
from duetlink.net.peer.connection import PeerConnection
from duetlink.net.signaling import BORROWS, SessionCode, SignalingHello, WebSocketMailbox, pair_scientist
from duetlink.net.signaling import schema_pb2 as pb
from duetlink.net.signaling.server import MailboxServer
from duetlink.net.signaling.wordlist import EVEN, ODD
from duetlink.settings import IceServer, Settings
from duetlink.version import PROTOCOL_MAX, PROTOCOL_MIN


@pytest.fixture
def server() -> Any:
    """A signaling server of its own; the fixture's value is its address."""
    thread = LoopThread("server")
    mailboxes = MailboxServer()
    host, port = thread.run(mailboxes.start("127.0.0.1", 0))
    yield f"ws://{host}:{port}"
    thread.run(mailboxes.stop())
    thread.stop()


def other_words(code: str) -> str:
    """The same number with other words."""
    right = SessionCode.parse(code)
    words = (next(word for word in ODD if word != right.words[0]), next(word for word in EVEN))
    return str(SessionCode(right.nameplate, words, right.server))


def closes(duet: duetlink.Duet) -> str:
    while not duet.state.startswith("closed"):
        threading.Event().wait(0.01)
    return duet.state


def test_a_wrong_code_is_refused_reported_and_burnt(server: str) -> None:
    with duetlink.launch(signaling=server) as owner:
        code = str(owner.code)
        with pytest.raises(errors.WrongCode, match="burnt"):
            duetlink.join(other_words(code), signaling=server)
        assert "wrong code" in closes(owner)
        with pytest.raises(errors.WrongCode, match="launch"):
            owner.wait_connected(5)
        with pytest.raises((errors.CodeUsed, errors.UnknownCode)):
            duetlink.join(code, signaling=server)


def test_a_used_code_is_refused(server: str) -> None:
    with duetlink.launch(signaling=server) as owner, duetlink.join(str(owner.code), signaling=server):
        with pytest.raises((errors.CodeUsed, errors.UnknownCode)):
            duetlink.join(str(owner.code), signaling=server)
        assert owner.wait_connected(5).state == "connected"


def test_the_code_of_a_closed_session_is_refused(server: str) -> None:
    owner = duetlink.launch(signaling=server)
    code = str(owner.code)
    owner.close()
    with pytest.raises((errors.UnknownCode, errors.CodeUsed)):
        duetlink.join(code, signaling=server)


def test_a_number_that_nobody_has_is_unknown(server: str) -> None:
    with pytest.raises(errors.UnknownCode):
        duetlink.join("999-crossover-clockwork", signaling=server)


@pytest.mark.parametrize("code", ["", "hello", "7", "7-crossover-clockwrok", "7-crossover-clockwork@"])
def test_what_is_no_code_is_refused_before_anything_is_dialled(code: str) -> None:
    with pytest.raises(errors.MalformedCode):
        duetlink.join(code)


def test_no_signaling_server_at_the_address() -> None:
    with pytest.raises(errors.SignalingUnavailable, match=r"127\.0\.0\.1:9"):
        duetlink.launch(signaling="ws://127.0.0.1:9")
    with pytest.raises(errors.SignalingUnavailable, match=r"127\.0\.0\.1:9"):
        duetlink.join("7-crossover-clockwork@127.0.0.1:9")


def test_no_signaling_server_anywhere_says_what_to_do() -> None:
    with pytest.raises(errors.SignalingUnavailable, match="DUETLINK_SIGNALING"):
        duetlink.join("7-crossover-clockwork")


def test_incompatible_versions_name_both_on_both_sides(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with duetlink.launch(signaling=server) as owner:
        monkeypatch.setattr(session, "PROTOCOL_MIN", 9)
        monkeypatch.setattr(session, "PROTOCOL_MAX", 9)
        monkeypatch.setattr(session, "__version__", "9.0.0")
        with pytest.raises(errors.IncompatiblePeer, match=r"9\.0\.0.*0\.1\.0|0\.1\.0.*9\.0\.0"):
            duetlink.join(str(owner.code), signaling=server)
        assert "9.0.0" in closes(owner)
        assert "0.1.0" in owner.state


async def hear_relays(code: str, server: str) -> tuple[IceServer, ...]:
    """The TURN servers that an owner lends to a scientist that has none."""
    parsed = SessionCode.parse(code)
    mailbox = await WebSocketMailbox.join(server, parsed.nameplate)
    connection = PeerConnection([])

    async def borrow(relays: tuple[IceServer, ...]) -> bytes:
        return await connection.offer()

    hello = SignalingHello(PROTOCOL_MIN, PROTOCOL_MAX, "0", features=frozenset({BORROWS}))
    try:
        paired = await pair_scientist(mailbox, parsed, hello, await connection.offer(), borrow=borrow)
        return paired.hello.relays
    finally:
        await mailbox.close()
        await connection.close()


@pytest.mark.parametrize(
    ("lasts_s", "relay", "lent_urls"),
    [
        (3600, True, ["turn:192.0.2.7:3478?transport=udp"]),
        (3600, False, []),
        (10**8, True, []),
        (-60, True, []),
        (None, True, []),
    ],
)
def test_an_owner_lends_credentials_that_end_soon_and_no_others(
    server: str, lasts_s: int | None, relay: bool, lent_urls: list[str]
) -> None:
    username = "ada" if lasts_s is None else f"{int(time.time()) + lasts_s}:ada"
    turn = IceServer(("turn:192.0.2.7",), username, "hunter2")
    settings = Settings(signaling=server, ice_servers=(turn,), relay=relay, ice_probe_timeout_s=0.01)
    with duetlink.launch(settings=settings) as owner:
        relays = asyncio.run(hear_relays(str(owner.code), server))
    assert [url for one in relays for url in one.urls] == lent_urls
    assert all((one.username, one.credential) == (username, "hunter2") for one in relays)


def test_a_code_that_nobody_uses_expires(server: str) -> None:
    settings = Settings(signaling=server, code_lifetime_s=1.0)
    with duetlink.launch(settings=settings) as owner:
        with pytest.raises(errors.PairingTimeout):
            owner.wait_connected(60)
        assert owner.state.startswith("closed")


@pytest.fixture
def mute_server() -> Any:
    """A signaling server that gives a nameplate, answers pings, and never says anything else."""
    thread = LoopThread("server")

    async def serve(request: web.Request) -> web.StreamResponse:
        ws = web.WebSocketResponse()
        await ws.prepare(request)
        claimed = pb.Claimed(nameplate=5, hall=bytes(32))
        await ws.send_bytes(pb.ServerFrame(claimed=claimed).SerializeToString())
        async for _ in ws:
            pass
        return ws

    async def start() -> web.ServerRunner:
        runner = web.ServerRunner(web.Server(serve))  # type: ignore[arg-type]
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner

    runner = thread.run(start())
    yield f"ws://127.0.0.1:{runner.addresses[0][1]}"
    thread.run(runner.cleanup())
    thread.stop()


def test_a_code_expires_at_a_server_that_says_nothing(mute_server: str) -> None:
    settings = Settings(signaling=mute_server, code_lifetime_s=1.0)
    with duetlink.launch(settings=settings) as owner:
        with pytest.raises(
            errors.PairingTimeout, match=r"no scientist came within 1 s.*launch\(\) a new code"
        ):
            owner.wait_connected(60)
        assert owner.state.startswith("closed")


def test_a_groups_code_expires_at_a_server_that_says_nothing(mute_server: str) -> None:
    settings = Settings(signaling=mute_server, code_lifetime_s=1.0)
    with (
        duetlink.group(size=2, settings=settings) as group,
        pytest.raises(errors.PairingTimeout, match="within 1 s"),
    ):
        group.wait_ready(60)


def test_waiting_for_nobody_leaves_the_code_valid(server: str) -> None:
    with duetlink.launch(signaling=server) as owner:
        with pytest.raises(errors.PairingTimeout, match="still valid"):
            owner.wait_connected(0.05)
        assert owner.state == "waiting"
        with duetlink.join(str(owner.code), signaling=server) as scientist:
            assert scientist.state == "connected"


def test_the_environment_names_the_server(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUETLINK_SIGNALING", server)
    with duetlink.launch() as owner:
        assert "@" not in str(owner.code)  # a loopback server is of no use to a peer elsewhere
        with duetlink.join(str(owner.code)) as scientist:
            assert scientist.state == "connected"


def test_the_signaling_server_of_a_kernel_listens_where_it_is_told() -> None:
    settings = Settings(listen="127.0.0.2")
    with duetlink.launch(settings=settings) as owner:
        server = SessionCode.parse(str(owner.code)).server
        assert server is not None
        assert server.startswith("127.0.0.2:")
        with pytest.raises(errors.SettingError, match=r"listens at 127\.0\.0\.2 already"):
            duetlink.launch(settings=Settings(), keep=True)
        with duetlink.join(str(owner.code), settings=settings) as scientist:
            assert scientist.state == "connected"


def test_listen_is_an_address_and_no_name() -> None:
    with pytest.raises(errors.SettingError, match="'eth0' is no IP address"):
        Settings(listen="eth0")
    assert Settings.from_environment({"DUETLINK_LISTEN": "::1"}).listen == "::1"


def test_a_second_session_of_this_machine_uses_the_first_ones_server() -> None:
    with duetlink.launch() as first, duetlink.launch() as second:
        one, two = SessionCode.parse(str(first.code)), SessionCode.parse(str(second.code))
        assert one.server == two.server
        assert one.nameplate != two.nameplate
        # without its address, as one says it to somebody on the same machine
        with duetlink.join(str(SessionCode(two.nameplate, two.words))) as scientist:
            assert second.wait_connected(10).verifier == scientist.verifier


def test_pairing_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    owner = duetlink.launch(signaling="paste")
    assert str(owner.code).startswith("duet1:")
    joined: list[duetlink.Duet] = []
    thread = threading.Thread(target=lambda: joined.append(duetlink.join(str(owner.code))))
    thread.start()
    out = ""
    while '")' not in out.partition("duet.accept(")[2]:
        out += capsys.readouterr().out
        threading.Event().wait(0.01)
    with pytest.raises(errors.MalformedCode):
        owner.accept("something else")
    owner.accept(out.split('duet.accept("')[1].split('"')[0])
    thread.join(20)
    assert owner.state == joined[0].state == "connected"
    assert owner.verifier == joined[0].verifier
    joined[0].send([1, 2], "by hand")
    assert owner.store["by hand"].get() == [1, 2]
    joined[0].close()
    owner.close()


def test_an_interrupted_join_leaves_nothing(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def interrupted(*arguments: Any, **keywords: Any) -> None:
        import signal

        signal.raise_signal(signal.SIGINT)
        await asyncio.Event().wait()

    with duetlink.launch(signaling=server) as owner:
        monkeypatch.setattr(session, "choose_ice_servers", interrupted)
        with pytest.raises(KeyboardInterrupt):
            duetlink.join(str(owner.code), signaling=server)
