from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import random
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.http_exceptions import BadStatusLine
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from duetlink.errors import (
    CodeUsed,
    DuetError,
    LinkClosed,
    LocalProtocolError,
    PairingTimeout,
    SettingError,
    SignalingRefused,
    SignalingUnavailable,
    UnknownCode,
)
from duetlink.net.signaling import schema_pb2 as pb
from duetlink.net.signaling.client import WebSocketMailbox
from duetlink.net.signaling.frames import HEALTH
from duetlink.net.signaling.limits import Limits
from duetlink.net.signaling.malformed_requests import MalformedRequests
from duetlink.net.signaling.server import MailboxServer

from .conftest import Clock

Raw = aiohttp.ClientWebSocketResponse


@asynccontextmanager
async def raw(url: str) -> AsyncIterator[Raw]:
    async with aiohttp.ClientSession() as session, session.ws_connect(f"{url}/v1", max_msg_size=0) as ws:
        yield ws


@asynccontextmanager
async def limited(limits: Limits) -> AsyncIterator[str]:
    server = MailboxServer(limits)
    host, port = await server.start()
    try:
        yield f"ws://{host}:{port}"
    finally:
        await server.stop()


async def refusal(ws: Raw) -> pb.Refusal:
    frame = pb.ServerFrame.FromString(await ws.receive_bytes(timeout=60))
    while not frame.HasField("refusal"):
        frame = pb.ServerFrame.FromString(await ws.receive_bytes(timeout=60))
    assert (await ws.receive(timeout=60)).type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)
    return frame.refusal


async def works(url: str) -> None:
    owner, nameplate = await WebSocketMailbox.claim(url)
    scientist = await WebSocketMailbox.join(url, nameplate)
    await owner.send(b"ping")
    assert await scientist.receive() == b"ping"
    await owner.close()
    await scientist.close()


async def test_messages_wait_in_order_for_the_scientist(url: str) -> None:
    owner, nameplate = await WebSocketMailbox.claim(url)
    for number in range(20):
        await owner.send(b"%d" % number)
    scientist = await WebSocketMailbox.join(url, nameplate)
    assert [await scientist.receive() for _ in range(20)] == [b"%d" % number for number in range(20)]
    await owner.close()
    await scientist.close()


async def test_a_code_is_joined_once_even_after_the_first_left(url: str) -> None:
    owner, nameplate = await WebSocketMailbox.claim(url)
    first = await WebSocketMailbox.join(url, nameplate)
    with pytest.raises(CodeUsed, match="ask the owner for a new one"):
        await WebSocketMailbox.join(url, nameplate)
    await first.close()
    with pytest.raises(LinkClosed):
        await owner.receive()
    with pytest.raises(CodeUsed):
        await WebSocketMailbox.join(url, nameplate)
    await owner.close()


async def test_an_unknown_nameplate_says_what_to_check(url: str) -> None:
    with pytest.raises(UnknownCode, match="check the number"):
        await WebSocketMailbox.join(url, 77)


async def test_an_expired_mailbox_ends_for_the_owner_and_is_unknown_after(
    url: str, server: MailboxServer, clock: Clock
) -> None:
    owner, nameplate = await WebSocketMailbox.claim(url, lifetime_s=60)
    clock.now_s += 60
    with pytest.raises(UnknownCode):
        await WebSocketMailbox.join(url, nameplate)
    with pytest.raises(PairingTimeout, match="launch"):
        await owner.receive()
    await owner.close()


async def test_a_broken_connection_is_told_as_errory(url: str) -> None:
    owner, nameplate = await WebSocketMailbox.claim(url)
    async with raw(url) as ws:
        await ws.send_bytes(pb.ClientFrame(join=pb.Join(nameplate=nameplate)).SerializeToString())
        await ws.receive_bytes()
        assert ws._response.connection is not None
        assert ws._response.connection.transport is not None
        ws._response.connection.transport.abort()
        with pytest.raises(LinkClosed, match="before pairing was complete"):
            await owner.receive()
    await owner.close()


async def send_text(ws: Raw) -> None:
    await ws.send_str("hello")


async def send_garbage(ws: Raw) -> None:
    await ws.send_bytes(b"\xff" * 30)


async def send_nothing(ws: Raw) -> None:
    await ws.send_bytes(b"")


async def send_message_first(ws: Raw) -> None:
    await ws.send_bytes(pb.ClientFrame(message=b"x").SerializeToString())


async def send_two_claims(ws: Raw) -> None:
    for _ in range(2):
        await ws.send_bytes(pb.ClientFrame(claim=pb.Claim()).SerializeToString())


async def send_garbage_after_claiming(ws: Raw) -> None:
    await ws.send_bytes(pb.ClientFrame(claim=pb.Claim()).SerializeToString())
    await ws.send_bytes(b"\xff" * 30)


@pytest.mark.parametrize(
    ("send", "says"),
    [
        (send_text, "text frames"),
        (send_garbage, "not a client frame"),
        (send_nothing, "without a body"),
        (send_message_first, "must claim, join or meet"),
        (send_two_claims, "already"),
        (send_garbage_after_claiming, "not a client frame"),
    ],
)
async def test_nonsense_gets_an_error_frame_and_the_server_goes_on(
    url: str, server: MailboxServer, send: Callable[[Raw], Awaitable[None]], says: str
) -> None:
    async with raw(url) as ws:
        await send(ws)
        answer = await refusal(ws)
        assert answer.reason == pb.Refusal.MALFORMED
        assert says in answer.text
    await works(url)
    assert len(server.mailboxes) == 0


async def test_a_message_that_is_too_large_is_refused_with_the_figure(url: str) -> None:
    async with raw(url) as ws:
        await ws.send_bytes(pb.ClientFrame(claim=pb.Claim()).SerializeToString())
        await ws.send_bytes(pb.ClientFrame(message=b"x" * 65537).SerializeToString())
        assert "65536" in (await refusal(ws)).text
    await works(url)


async def test_a_frame_that_is_much_too_large_is_cut_off(url: str) -> None:
    async with raw(url) as ws:
        with pytest.raises((ConnectionError, TypeError)):
            await ws.send_bytes(bytes(10_000_000))
            await ws.receive_bytes(timeout=60)
    await works(url)


async def test_every_limit_of_a_mailbox_reaches_the_client_as_signaling_refused() -> None:
    async with limited(Limits(mailbox_messages=2)) as url:
        owner, _ = await WebSocketMailbox.claim(url)
        for _ in range(3):
            await owner.send(b"x")
        with pytest.raises(SignalingRefused, match="at most 2 messages"):
            await owner.receive()
        await owner.close()
    async with limited(Limits(mailbox_bytes=10)) as url:
        owner, _ = await WebSocketMailbox.claim(url)
        await owner.send(b"x" * 11)
        with pytest.raises(SignalingRefused, match="at most 10 bytes"):
            await owner.receive()
        await owner.close()
    async with limited(Limits(message_bytes=10)) as url:
        owner, _ = await WebSocketMailbox.claim(url)
        await owner.send(b"x" * 11)
        with pytest.raises(SignalingRefused, match="takes 10"):
            await owner.receive()
        await owner.close()


async def test_limits_on_mailboxes_connections_and_rate() -> None:
    async with limited(Limits(mailboxes=1)) as url:
        owner, _ = await WebSocketMailbox.claim(url)
        with pytest.raises(SignalingRefused, match="holds 1 mailboxes"):
            await WebSocketMailbox.claim(url)
        await owner.close()
    async with limited(Limits(connections_per_address=1)) as url:
        owner, _ = await WebSocketMailbox.claim(url)
        with pytest.raises(SignalingRefused, match="more than 1 connections"):
            await WebSocketMailbox.claim(url)
        await owner.close()
    async with limited(Limits(arrivals_per_address_per_minute=2)) as url:
        for _ in range(2):
            with pytest.raises(UnknownCode):
                await WebSocketMailbox.join(url, 5)
        with pytest.raises(SignalingRefused, match="more than 2 claims and joins"):
            await WebSocketMailbox.join(url, 5)


async def test_a_connection_that_claims_nothing_is_closed() -> None:
    async with limited(Limits(opening_s=0.05)) as url:
        async with raw(url) as ws:
            assert "no first frame within 0.05 s" in (await refusal(ws)).text
        host, port = url.removeprefix("ws://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))  # no HTTP request at all
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()


async def silent_connection(url: str) -> asyncio.StreamReader:
    """The reading end of a TCP connection that says nothing."""
    host, port = url.split("://")[1].split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    reader.writer = writer  # type: ignore[attr-defined] # kept open as long as the reader
    return reader


async def ended(reader: asyncio.StreamReader) -> None:
    """Wait until the server has closed the connection."""
    with contextlib.suppress(ConnectionError):
        assert await asyncio.wait_for(reader.read(), 30) == b""
    reader.writer.close()  # type: ignore[attr-defined]


async def test_a_connection_that_does_not_even_begin_tls_is_closed_in_time(tmp_path: Path) -> None:
    serving, trusting = tls_contexts(tmp_path)
    server = MailboxServer(Limits(opening_s=0.2))
    host, port = await server.start("127.0.0.1", 0, serving)
    await ended(await silent_connection(f"wss://{host}:{port}"))  # asyncio alone would wait for a minute
    mailbox, _ = await WebSocketMailbox.claim(f"wss://{host}:{port}", ssl_context=trusting)
    await mailbox.close()
    await server.stop()


async def test_silent_connections_count_and_those_of_an_address_have_an_end() -> None:
    async with limited(Limits(connections_per_address=2)) as url:
        silent = [await silent_connection(url) for _ in range(4)]
        await ended(await silent_connection(url))
        with pytest.raises(SignalingUnavailable):
            await WebSocketMailbox.claim(url)
        for reader in silent:
            reader.writer.close()  # type: ignore[attr-defined]
        await eventually_works(url)


async def test_connections_are_limited_in_sum() -> None:
    async with limited(Limits(connections=3)) as url:
        silent = [await silent_connection(url) for _ in range(3)]
        await ended(await silent_connection(url))
        for reader in silent:
            reader.writer.close()  # type: ignore[attr-defined]
        await eventually_works(url)


async def eventually_works(url: str) -> None:
    """Connections that the test has closed may be counted for a moment longer."""
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(SignalingUnavailable, SignalingRefused, LinkClosed):
                return await works(url)


UPGRADE = (
    b"GET /v1 HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


@pytest.mark.parametrize("aborts", [False, True])
async def test_who_goes_in_the_middle_of_the_greeting_is_no_error(
    url: str, caplog: pytest.LogCaptureFixture, aborts: bool
) -> None:
    host, port = url.removeprefix("ws://").split(":")
    # blocking: the request and its end are both there before the server's loop turns
    with socket.create_connection((host, int(port))) as client:
        client.sendall(UPGRADE)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", aborts, 0))
    await works(url)
    assert [record.message for record in caplog.records if record.name.startswith("aiohttp")] == []


async def test_a_client_that_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    async def stuck(self: web.WebSocketResponse, data: bytes) -> None:
        await asyncio.Event().wait()

    async with limited(Limits(stalled_s=0.01)) as url, raw(url) as ws:
        monkeypatch.setattr(web.WebSocketResponse, "send_bytes", stuck)
        await ws.send_bytes(pb.ClientFrame(claim=pb.Claim()).SerializeToString())
        end = await ws.receive(timeout=60)
    assert end.type in (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR)


async def test_web_pages_are_refused_and_health_is_told(url: str) -> None:
    http = url.replace("ws://", "http://")
    async with aiohttp.ClientSession() as session:
        async with session.get(http + "/") as response:
            assert (response.status, await response.text()) == (200, HEALTH)
        async with session.get(http + "/other") as response:
            assert response.status == 404
        async with session.get(http + "/v1") as response:
            assert response.status == 426
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await session.ws_connect(url + "/v1", origin="http://evil.example")
        assert caught.value.status == 403


async def test_clients_that_wait_learn_that_the_server_stopped(url: str, server: MailboxServer) -> None:
    owner, nameplate = await WebSocketMailbox.claim(url)
    scientist = await WebSocketMailbox.join(url, nameplate)
    waiting = [asyncio.ensure_future(each.receive()) for each in (owner, scientist)]
    await asyncio.wait(waiting, timeout=0.01)
    await server.stop()
    await server.stop()
    for each in waiting:
        with pytest.raises(SignalingUnavailable, match=url):
            await each
    await owner.close()
    await scientist.close()
    with pytest.raises(SignalingUnavailable, match=f"no signaling server at {url}"):
        await WebSocketMailbox.claim(url)


async def test_a_server_starts_once_and_says_when_a_port_is_taken(url: str, server: MailboxServer) -> None:
    with pytest.raises(LocalProtocolError):
        await server.start()
    with pytest.raises(SignalingUnavailable, match="choose another port"):
        await MailboxServer().start("127.0.0.1", int(url.rsplit(":", 1)[1]))


async def test_an_address_that_is_none_is_a_setting_error() -> None:
    for address in ("ws://", "ws://host:port"):
        with pytest.raises((SettingError, SignalingUnavailable)):
            await WebSocketMailbox.claim(address)


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", b"SSH-2.0-OpenSSH\r\n", b"", b"\x00" * 100]
)
async def test_something_else_that_listens_there_is_no_signaling_server(answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        writer.close()

    other = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = other.sockets[0].getsockname()[1]
    with pytest.raises(SignalingUnavailable, match=f"127.0.0.1:{port}"):
        await WebSocketMailbox.claim(f"ws://127.0.0.1:{port}")
    other.close()
    await other.wait_closed()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_refused_and_nothing_else_is_dialled(status: int) -> None:
    dialled = asyncio.Event()

    async def elsewhere(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        dialled.set()
        writer.close()

    other = await asyncio.start_server(elsewhere, "127.0.0.1", 0)
    target = f"http://127.0.0.1:{other.sockets[0].getsockname()[1]}/admin"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {status} Moved\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n".encode())
        writer.close()

    hostile = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"ws://127.0.0.1:{hostile.sockets[0].getsockname()[1]}"
    with pytest.raises(SignalingUnavailable, match="redirects are not followed"):
        await WebSocketMailbox.claim(url)
    assert not dialled.is_set()
    for server in (hostile, other):
        server.close()
        await server.wait_closed()


FIRST_FRAGMENT, EMPTY_FRAGMENT, PONG = b"\x02\x00", b"\x00\x00", b"\x8a\x00"


@pytest.mark.parametrize("endless", [EMPTY_FRAGMENT, PONG], ids=["fragments", "pongs"])
async def test_a_server_that_sends_without_end_and_without_a_message_is_left(endless: bytes) -> None:
    left = asyncio.Event()

    async def serve(request: aiohttp.web.Request) -> aiohttp.web.StreamResponse:
        ws = aiohttp.web.WebSocketResponse()
        await ws.prepare(request)
        await ws.send_bytes(pb.ServerFrame(claimed=pb.Claimed(nameplate=5)).SerializeToString())
        transport = request.transport
        assert transport is not None
        transport.write(FIRST_FRAGMENT)
        while not transport.is_closing():
            transport.write(endless * 10_000)
            while not transport.is_closing() and transport.get_write_buffer_size():
                await asyncio.sleep(0)
        left.set()
        return ws

    runner = aiohttp.web.ServerRunner(aiohttp.web.Server(serve))  # type: ignore[arg-type]
    await runner.setup()
    await aiohttp.web.TCPSite(runner, "127.0.0.1", 0).start()
    mailbox, _ = await WebSocketMailbox.claim(f"ws://127.0.0.1:{runner.addresses[0][1]}")
    async with asyncio.timeout(60):
        with pytest.raises(SignalingUnavailable):
            await mailbox.receive()
        await left.wait()
    await mailbox.close()
    await runner.cleanup()


HOSTILE_ANSWERS = [
    [b"\xff" * 20],
    [b""],
    ["text"],
    [pb.ServerFrame(joined=pb.Joined())],
    [pb.ServerFrame(claimed=pb.Claimed(nameplate=0))],
    [pb.ServerFrame(claimed=pb.Claimed(nameplate=5)), b"\xff" * 20],
    [pb.ServerFrame(claimed=pb.Claimed(nameplate=5)), "text"],
    [pb.ServerFrame(claimed=pb.Claimed(nameplate=5)), pb.ServerFrame(joined=pb.Joined())],
    [pb.ServerFrame(claimed=pb.Claimed(nameplate=5)), bytes(1_000_000)],
    [
        pb.ServerFrame(claimed=pb.Claimed(nameplate=5)),
        pb.ServerFrame(refusal=pb.Refusal(text="\x1b[31m" * 5000)),
    ],
    [pb.ServerFrame(claimed=pb.Claimed(nameplate=5)), pb.ServerFrame(refusal=pb.Refusal(reason=99))],  # type: ignore[arg-type]
    [pb.ServerFrame(claimed=pb.Claimed(nameplate=5)), *[pb.ServerFrame(message=b"flood")] * 400],
]


@pytest.mark.parametrize("answers", HOSTILE_ANSWERS, ids=range(len(HOSTILE_ANSWERS)))
async def test_a_hostile_server_causes_only_our_errors(answers: list[bytes | str | pb.ServerFrame]) -> None:
    async def serve(request: aiohttp.web.Request) -> aiohttp.web.WebSocketResponse:
        ws = aiohttp.web.WebSocketResponse(timeout=0.5)
        await ws.prepare(request)
        for answer in answers:
            try:
                if isinstance(answer, str):
                    await ws.send_str(answer)
                else:
                    await ws.send_bytes(answer if isinstance(answer, bytes) else answer.SerializeToString())
            except ConnectionError:
                break
        await ws.close()
        return ws

    app = aiohttp.web.Application()
    app.router.add_get("/v1", serve)
    runner = aiohttp.web.AppRunner(app)
    await runner.setup()
    site = aiohttp.web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"ws://127.0.0.1:{runner.addresses[0][1]}"
    with pytest.raises(DuetError) as caught:
        mailbox, _ = await WebSocketMailbox.claim(url)
        async with mailbox, asyncio.timeout(60):
            for _ in range(1000):
                await mailbox.receive()
    assert len(str(caught.value)) < 400
    assert str(caught.value).isprintable()
    await runner.cleanup()


async def test_cancelling_a_claim_leaves_nothing_open() -> None:
    came, gone = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.set()
        await reader.read()  # to the end: the client has hung up
        writer.close()
        gone.set()

    silent = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    claiming = asyncio.ensure_future(WebSocketMailbox.claim(f"ws://127.0.0.1:{port}"))
    await came.wait()
    claiming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await claiming
    await gone.wait()
    silent.close()


async def test_no_content_is_logged(url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    owner, nameplate = await WebSocketMailbox.claim(url)
    scientist = await WebSocketMailbox.join(url, nameplate)
    await owner.send(b"very-secret")
    assert await scientist.receive() == b"very-secret"
    await owner.close()
    await scientist.close()
    assert "very-secret" not in caplog.text


async def test_random_frames_do_not_disturb_other_pairs(url: str, server: MailboxServer) -> None:
    dice = random.Random(20261121)
    owner, nameplate = await WebSocketMailbox.claim(url)
    for _ in range(25):
        async with raw(url) as ws:
            for _ in range(dice.randrange(5)):
                claim = pb.ClientFrame(claim=pb.Claim(lifetime_s=dice.randrange(2**32))).SerializeToString()
                leave = pb.ClientFrame(leave=dice.randrange(-5, 200)).SerializeToString()  # type: ignore[arg-type]
                try:
                    await ws.send_bytes(dice.choice([claim, leave, dice.randbytes(dice.randrange(40))]))
                except ConnectionError:
                    break
    scientist = await WebSocketMailbox.join(url, nameplate)
    await scientist.send(b"undisturbed")
    assert await owner.receive() == b"undisturbed"
    await owner.close()
    await scientist.close()


async def test_tls_is_verified(server: MailboxServer, tmp_path: Path) -> None:
    serving, trusting = tls_contexts(tmp_path)
    _, port = await server.start("127.0.0.1", 0, serving)
    url = f"wss://127.0.0.1:{port}"
    owner, nameplate = await WebSocketMailbox.claim(url, ssl_context=trusting)
    scientist = await WebSocketMailbox.join(url, nameplate, ssl_context=trusting)
    await owner.send(b"x")
    assert await scientist.receive() == b"x"
    await owner.close()
    await scientist.close()
    with pytest.raises(SignalingUnavailable, match=r"(?i)certificate"):
        await WebSocketMailbox.claim(url)


def tls_contexts(directory: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    file = directory / "server.pem"
    file.write_bytes(
        pem
        + key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(file)
    return serving, ssl.create_default_context(cadata=pem.decode())


RUBBISH = (
    b"rubbish\r\n\r\n",
    b"\x16\x03\x01\x02\x00" + b"x" * 600,  # TLS
    b"GET / HTTP/9.9\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nrubbish",
    b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n",
    b"GET http://[ HTTP/1.1\r\nHost: x\r\n\r\n",
)


async def test_what_strangers_send_is_told_as_a_number_only(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    server = MailboxServer()
    host, port = await server.start()
    try:
        for rubbish in RUBBISH:
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(rubbish)
            writer.write_eof()
            with contextlib.suppress(ConnectionError):
                await asyncio.wait_for(reader.read(), 10)
            writer.close()
    finally:
        await server.stop()
    # of the first two aiohttp itself says nothing
    told = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert told == [("INFO", "6 connections that were no clients' were refused")]


def test_strangers_are_told_of_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    clock = Clock()
    strangers = MalformedRequests(clock)
    for _ in range(12):
        strangers.logger.exception("Error handling request", exc_info=BadStatusLine("rubbish"))
    strangers.tell()
    clock.now_s += 60
    strangers.tell()
    strangers.tell()
    clock.now_s += 60
    strangers.tell()
    assert [record.getMessage() for record in caplog.records] == [
        "12 connections that were no clients' were refused"
    ]


def test_a_defect_of_the_server_is_told_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    MalformedRequests(Clock()).logger.exception("Error handling request", exc_info=ValueError("a defect"))
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "a defect"
