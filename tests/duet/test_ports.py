"""Shared ports between two duets, with real TCP services and programs: what passes, and what may not."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import http.client
import http.server
import os
import socket
import socketserver
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import duetlink
from duetlink.duet.duet import Duet
from duetlink.errors import AuditUnavailable, DuetError, LinkClosed, PortUnavailable, SettingError
from duetlink.testing.faults import life_of, run_inside

DuetPair = tuple[Duet, Duet]
MIB = 1024 * 1024


class Echo(socketserver.BaseRequestHandler):
    """Sends everything back, then ends its direction when the other one has ended."""

    def handle(self) -> None:
        while data := self.request.recv(65536):
            self.request.sendall(data)


class AfterTheEnd(socketserver.BaseRequestHandler):
    """Says how many bytes came, once their direction has ended."""

    def handle(self) -> None:
        count = 0
        while data := self.request.recv(65536):
            count += len(data)
        self.request.sendall(b"%d" % count)


class Endless(socketserver.BaseRequestHandler):
    """Sends for as long as somebody takes it."""

    def handle(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self.request.sendall(bytes(65536))
                self.server.sent_bytes += 65536  # type: ignore[attr-defined]


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 300
    sent_bytes = 0


@contextlib.contextmanager
def serving(handler: Any) -> Iterator[Server]:
    with Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def port_of(server: Server) -> int:
    port = server.server_address[1]
    assert isinstance(port, int)
    return port


def dial(port: Any) -> socket.socket:
    return socket.create_connection((port.host, port.port), timeout=20)


def exactly(connection: socket.socket, size: int) -> bytes:
    got = bytearray()
    while len(got) < size and (data := connection.recv(size - len(got))):
        got += data
    return bytes(got)


def ask(connection: socket.socket, data: bytes) -> None:
    """Send, and take the echo."""
    connection.sendall(data)
    assert exactly(connection, len(data)) == data


def assert_ended(connection: socket.socket) -> None:
    with contextlib.suppress(ConnectionResetError):
        assert connection.recv(1) == b""


def until(condition: Any) -> None:
    """Wait for what another thread does soon; the test's timeout bounds it."""
    while not condition():
        threading.Event().wait(0.01)


def why_failed(duet: Duet) -> str:
    """What the audit log says of connections that broke."""
    return " ".join(line.reason for line in duet.audit.filter(kind="port") if line.state == "failed")


def test_bytes_pass_unchanged_both_ways(duets: DuetPair) -> None:
    owner, scientist = duets
    with serving(Echo) as server:
        shared = owner.share_port(port_of(server), "echo")
        opened = scientist.open_port("echo")
        body = os.urandom(8 * MIB)
        with dial(opened) as connection:
            sender = threading.Thread(target=connection.sendall, args=(body,))
            sender.start()
            assert hashlib.sha256(exactly(connection, len(body))).digest() == hashlib.sha256(body).digest()
            sender.join()
            assert (shared.connections, opened.connections) == (1, 1)
        until(lambda: shared.connections == opened.connections == 0)
        assert (opened.sent_bytes, opened.received_bytes) == (8 * MIB, 8 * MIB)
        assert (shared.sent_bytes, shared.received_bytes) == (8 * MIB, 8 * MIB)
        assert scientist.statistics().received_bytes >= 8 * MIB
        assert opened.address == f"127.0.0.1:{opened.port}"
        assert f"127.0.0.1:{shared.port} for the peer" in repr(owner.ports["echo"])


def test_the_scientist_may_share_a_port_as_well(duets: DuetPair) -> None:
    owner, scientist = duets
    with serving(Echo) as server:
        scientist.share_port(port_of(server), "echo")
        with dial(owner.open_port("echo")) as connection:
            ask(connection, b"hello")


def test_a_direction_ends_alone(duets: DuetPair) -> None:
    owner, scientist = duets
    with serving(AfterTheEnd) as server:
        owner.share_port(port_of(server), "count")
        with dial(scientist.open_port("count")) as connection:
            connection.sendall(bytes(100_000))
            connection.shutdown(socket.SHUT_WR)
            assert exactly(connection, 100) == b"100000"


def test_web_pages_come_over_a_connection_that_is_kept(duets: DuetPair, tmp_path: Path) -> None:
    owner, scientist = duets
    (tmp_path / "page.html").write_text("a page" * 10_000)

    class Pages(http.server.SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(tmp_path))

        def log_message(self, *arguments: Any) -> None:
            pass

    with serving(Pages) as server:
        owner.share_port(port_of(server), "pages")
        opened = scientist.open_port("pages")
        connection = http.client.HTTPConnection(opened.host, opened.port, timeout=20)
        for _ in range(3):
            connection.request("GET", "/page.html")
            response = connection.getresponse()
            assert (response.status, response.read()) == (200, b"a page" * 10_000)
        connection.request("GET", "/missing")
        response = connection.getresponse()
        assert response.status == 404
        response.read()
        connection.close()
        assert opened.total_connections == 1


def test_two_hundred_connections_at_once(duets: DuetPair) -> None:
    owner, scientist = duets
    with serving(Echo) as server:
        shared = owner.share_port(port_of(server), "echo")
        opened = scientist.open_port("echo")
        connections = [dial(opened) for _ in range(200)]
        for number, connection in enumerate(connections):
            connection.sendall(b"%3d" % number)
        assert [exactly(connection, 3) for connection in connections] == [b"%3d" % n for n in range(200)]
        assert shared.connections == 200
        for connection in connections:
            connection.close()
        until(lambda: shared.connections == 0)


def test_connections_beyond_the_limit_are_closed_and_the_others_go_on(duets: DuetPair) -> None:
    owner, scientist = duets
    with serving(Echo) as server:
        shared = owner.share_port(port_of(server), "echo")
        opened = scientist.open_port("echo")
        first = dial(opened)
        ask(first, b"x")
        held = []
        for _ in range(400):
            with contextlib.suppress(OSError):
                held.append(dial(opened))
        until(lambda: opened.refused_connections > 0)
        assert shared.connections <= 256
        ask(first, b"y")
        for connection in [first, *held]:
            connection.close()
        until(lambda: shared.connections == opened.connections == 0)
        with dial(opened) as connection:  # there is room again
            ask(connection, b"z")


def test_a_peer_that_opens_thousands_of_streams_gets_no_more_than_are_allowed(duets: DuetPair) -> None:
    owner, scientist = duets
    with serving(Echo) as server:
        shared = owner.share_port(port_of(server), "echo")
        link = life_of(scientist).link
        assert link is not None
        streams = link.streams

        async def attack() -> int:
            openings = [asyncio.ensure_future(streams.open("port")) for _ in range(2000)]
            opened = await asyncio.gather(*openings, return_exceptions=True)
            taken = [stream for stream in opened if not isinstance(stream, BaseException)]
            for stream in taken:
                stream.close()
            return len(taken)

        assert run_inside(scientist, attack()) == 256
        assert shared.connections == 0
        with dial(scientist.open_port("echo")) as connection:
            ask(connection, b"x")


def test_a_program_that_does_not_read_holds_back_its_service_and_nobody_else(duets: DuetPair) -> None:
    owner, scientist = duets
    with serving(Endless) as endless, serving(Echo) as server:
        owner.share_port(port_of(endless), "endless")
        owner.share_port(port_of(server), "echo")
        opened = scientist.open_port("endless")
        with dial(opened) as idle, dial(scientist.open_port("echo")) as echo:
            until(lambda: opened.received_bytes > 0)
            before = -1
            while before != endless.sent_bytes:  # until nothing moves any more
                before = endless.sent_bytes
                threading.Event().wait(0.3)
            # what the sockets of this machine and the window hold: the program has taken none of it
            assert endless.sent_bytes < 40 * MIB
            ask(echo, b"passes")
            assert len(exactly(idle, 20 * MIB)) == 20 * MIB


def test_what_was_not_shared_cannot_be_reached(duets: DuetPair) -> None:
    owner, scientist = duets
    with serving(Echo) as server:
        owner.share_port(port_of(server), "echo")
        with pytest.raises(PortUnavailable, match="no port 'other' is shared"):
            scientist.open_port("other")
        with pytest.raises(PortUnavailable):  # neither does its number help
            scientist.open_port(str(port_of(server)))
        with pytest.raises(PortUnavailable):  # the offer is to the peer alone
            owner.open_port("echo")


def test_an_offer_that_is_taken_back_ends_its_connections(duets: DuetPair) -> None:
    owner, scientist = duets
    with serving(Echo) as server:
        shared = owner.share_port(port_of(server), "echo")
        opened = scientist.open_port("echo")
        with dial(opened) as connection:
            ask(connection, b"x")
            shared.close()
            assert shared.closed
            assert_ended(connection)
        with dial(opened) as later:
            assert_ended(later)
        with pytest.raises(PortUnavailable, match="shared"):
            scientist.open_port("echo")
        shared.close()
        owner.share_port(port_of(server), "echo")  # the name is free again


def test_a_port_that_was_opened_is_closed(duets: DuetPair) -> None:
    owner, scientist = duets
    with serving(Echo) as server:
        shared = owner.share_port(port_of(server), "echo")
        opened = scientist.open_port("echo")
        with dial(opened) as connection:
            ask(connection, b"x")
            opened.close()
            assert_ended(connection)
        with pytest.raises(OSError):
            dial(opened)
        until(lambda: shared.connections == 0)
        assert len(scientist.ports) == 0


def test_a_service_that_does_not_answer_closes_the_connection(duets: DuetPair) -> None:
    owner, scientist = duets
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    shared = owner.share_port(free, "nobody")
    opened = scientist.open_port("nobody")
    with dial(opened) as connection:
        assert_ended(connection)
    until(lambda: opened.refused_connections == shared.refused_connections == 1)
    until(lambda: why_failed(scientist) and why_failed(owner))
    assert "the service does not answer" in why_failed(scientist)
    assert "the service does not answer" in why_failed(owner)


def test_a_connection_that_is_reset_ends_at_the_other_side(duets: DuetPair) -> None:
    owner, scientist = duets
    with socket.create_server(("127.0.0.1", 0)) as listener:
        shared = owner.share_port(listener.getsockname()[1], "raw")
        opened = scientist.open_port("raw")
        with dial(opened) as connection:
            connection.sendall(b"x")
            service, _ = listener.accept()
            assert service.recv(1) == b"x"
            service.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            service.close()
            with pytest.raises(ConnectionResetError):
                connection.recv(1)
        until(lambda: opened.connections == shared.connections == 0)
    until(lambda: why_failed(owner))
    assert "the connection broke: Connection reset by peer" in why_failed(owner)


def test_a_pause_keeps_everything_back_until_it_ends(duets: DuetPair) -> None:
    owner, scientist = duets
    with serving(Echo) as server:
        shared = owner.share_port(port_of(server), "echo")
        with dial(scientist.open_port("echo")) as connection:
            ask(connection, b"x")
            for pause, resume in ((shared.pause, shared.resume), (owner.pause, owner.resume)):
                pause()
                connection.sendall(b"held")
                connection.settimeout(0.2)
                with pytest.raises(TimeoutError):
                    connection.recv(1)
                connection.settimeout(20)
                resume()
                assert exactly(connection, 4) == b"held"
        assert not shared.paused


def test_both_sides_record_every_connection(duets: DuetPair) -> None:
    owner, scientist = duets
    with serving(Echo) as server:
        shared = owner.share_port(port_of(server), "echo")
        opened = scientist.open_port("echo")
        with dial(opened) as connection:
            ask(connection, b"12345")
        until(lambda: shared.connections == opened.connections == 0)
        until(lambda: len(owner.audit.filter(kind="port")) == 3)
        shared.close()
    told = [
        (e.name, e.state, e.connection, e.by, e.left_bytes, e.came_bytes, e.reason)
        for e in owner.audit.filter(kind="port")
    ]
    where = f"127.0.0.1:{shared.port}"
    assert told == [
        ("echo", "added", None, "", None, None, where),
        ("echo", "begun", 0, "the peer", None, None, ""),
        ("echo", "complete", 0, "the peer", 5, 5, ""),
        ("echo", "removed", None, "", None, None, where),
    ]
    there = [(e.state, e.by, e.left_bytes, e.came_bytes, e.peer) for e in scientist.audit.filter(kind="port")]
    assert there == [
        ("begun", "this side", None, None, "Olga"),
        ("complete", "this side", 5, 5, "Olga"),
    ]
    owner.audit.verify()


def test_where_the_log_cannot_be_written_nothing_passes(duets: DuetPair) -> None:
    owner, scientist = duets
    with serving(Echo) as server:
        owner.share_port(port_of(server), "echo")
        opened = scientist.open_port("echo")

        async def fail(*entries: Any, sync: bool = True) -> None:
            raise AuditUnavailable("the disk is full")

        life_of(owner).recorder.record = fail  # type: ignore[method-assign]
        with dial(opened) as connection:
            assert_ended(connection)
        until(lambda: opened.refused_connections == 1)
        with pytest.raises(AuditUnavailable):
            owner.share_port(port_of(server), "again")
        assert len(owner.ports) == 1
        del life_of(owner).recorder.record


def test_a_port_may_be_shared_before_anybody_has_joined() -> None:
    with serving(Echo) as server, duetlink.launch(name="early") as owner:
        owner.share_port(port_of(server), "echo")
        with duetlink.join(str(owner.code)) as scientist, dial(scientist.open_port("echo")) as connection:
            ask(connection, b"x")


def test_the_end_of_the_duet_ends_its_ports(duets: DuetPair) -> None:
    owner, scientist = duets
    with serving(Echo) as server:
        owner.share_port(port_of(server), "echo")
        opened = scientist.open_port("echo")
        with dial(opened) as connection:
            ask(connection, b"x")
            owner.close()
            assert_ended(connection)
        until(lambda: scientist.state.startswith("closed"))
        with pytest.raises(LinkClosed):
            scientist.open_port("echo")
        with pytest.raises(LinkClosed):
            owner.share_port(1234, "late")
        opened.close()


def test_what_is_no_port_is_refused(duets: DuetPair) -> None:
    owner, _ = duets
    values: list[tuple[Any, str, str]] = [
        (0, "x", "1 to 65535, not 0"),
        (70000, "x", "not 70000"),
        ("80", "x", "not '80'"),
        (80, "", "1 to 200 characters"),
        (80, "x" * 201, "1 to 200 characters"),
        (80, "a\nb", "1 to 200 characters"),
    ]
    for port, name, words in values:
        with pytest.raises(SettingError, match=words):
            owner.share_port(port, name)


def test_a_port_may_have_each_name_that_an_asset_may_have(duets: DuetPair) -> None:
    owner, scientist = duets
    name = "\N{SNOWMAN}" * 199 + "\N{OCTOPUS}"
    with serving(Echo) as server:
        owner.share(1, name)
        owner.share_port(port_of(server), name)
        with dial(scientist.open_port(name)) as connection:
            ask(connection, b"x")
        for longer in (name + "x", "x" * 201):
            with pytest.raises(SettingError, match="1 to 200 characters"):
                scientist.open_port(longer)


def test_a_peer_that_asks_for_an_overlong_name_gets_nothing(duets: DuetPair) -> None:
    owner, scientist = duets
    link = life_of(scientist).link
    assert link is not None
    streams = link.streams

    async def answer_to(name: bytes) -> bytes:
        stream = await streams.open("port")
        try:
            await stream.send(b"ask", memoryview(name))
            return (await stream.receive()).head
        finally:
            stream.close()

    with serving(Echo) as server:
        owner.share_port(port_of(server), "echo")
        assert run_inside(scientist, answer_to(b"echo")) == b"yes"
        for name, words in (
            (b"x" * 201, "overlong name"),
            (b"x" * 801, "malformed"),
            (b"", "malformed"),
            (b"\xff", "not UTF-8"),
        ):
            with pytest.raises(DuetError, match=words):
                run_inside(scientist, answer_to(name))


def test_a_name_is_shared_once_and_a_port_listened_on_once(duets: DuetPair) -> None:
    owner, scientist = duets
    owner.share_port(80, "web")
    with pytest.raises(SettingError, match=r"'web' is shared already \(127.0.0.1:80\); close it first"):
        owner.share_port(81, "web")
    opened = scientist.open_port("web")
    with pytest.raises(PortUnavailable, match=f"nothing can listen on 127.0.0.1:{opened.port}"):
        scientist.open_port("web", port=opened.port)
