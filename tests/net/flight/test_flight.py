"""The Flight pair alone: what it carries, and what it refuses."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import flight

from duetlink.data.tuning import RateCap
from duetlink.errors import PathUnavailable, RemoteProtocolError, TicketRefused, TransferFailed
from duetlink.net.flight.body import Outgoing, ReceiveBuffer
from duetlink.net.flight.certificate import (
    Authority,
    Identity,
    check_certificate,
    check_issued,
    create_identity,
    create_subject,
)
from duetlink.net.flight.client import FlightClient
from duetlink.net.flight.fingerprint import LEAF_BYTES, Fingerprint
from duetlink.net.flight.gate import Gate
from duetlink.net.flight.guest import Guest
from duetlink.net.flight.receiving import Decoding
from duetlink.net.flight.sending import Order, PlainController, StreamController
from duetlink.net.flight.server import FlightServer
from duetlink.net.flight.silence import silenced
from duetlink.net.flight.tickets import LIFETIME_S, TicketTable
from duetlink.testing.faults import arrow_client

MIB = 1024 * 1024
PLAIN = PlainController()


@dataclass
class Clock:
    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class Side:
    server: FlightServer
    client: FlightClient
    tickets: TicketTable
    clock: Clock
    owner: Identity
    scientist: Identity
    pool: ThreadPoolExecutor
    authority: Authority

    def issue(
        self,
        transfer_id: bytes,
        body: Outgoing,
        course: StreamController = PLAIN,
        ranges: list[tuple[int, int]] | None = None,
    ) -> bytes:
        order = Order(body.whole if ranges is None else ranges, lambda now_s: course)
        return self.tickets.issue(transfer_id, body, order, most_chunk_bytes=MIB)


def client_of(authority: Authority, subject: bytes) -> Identity:
    """A new key, and what the authority has issued for it."""
    identity = create_identity()
    return check_issued(authority.issue(identity.certificate_pem, subject), identity)


@pytest.fixture(scope="module")
def side() -> Iterator[Side]:
    owner, authority = create_identity(), Authority()
    scientist = client_of(authority, b"scientist")
    clock = Clock()
    tickets = TicketTable(clock)
    pool = ThreadPoolExecutor(2)
    server = FlightServer(owner, authority.certificate_pem, pool, host="127.0.0.1")
    server.admit(b"scientist", Guest(tickets, RateCap()))
    client = FlightClient(
        "127.0.0.1", server.port, scientist, owner.certificate_pem, Decoding(pool, workers=2)
    )
    client.probe(5.0)
    yield Side(server, client, tickets, clock, owner, scientist, pool, authority)
    client.close()
    server.close()
    pool.shutdown()


def outgoing(*parts: bytes | np.ndarray) -> Outgoing:
    views = [memoryview(part) if isinstance(part, bytes) else part.data for part in parts]
    segments = [view.cast("B") for view in views]
    return Outgoing(segments, sum(len(segment) for segment in segments))


def fetch(
    side: Side,
    body: Outgoing,
    *,
    receive_buffer: ReceiveBuffer | None = None,
    course: StreamController = PLAIN,
) -> ReceiveBuffer:
    receive_buffer = receive_buffer or ReceiveBuffer(body.size_bytes)
    ticket = side.issue(b"transfer", body, course, receive_buffer.missing)
    side.client.fetch(ticket, receive_buffer, ignore)
    return receive_buffer


def ignore(cancel: Callable[[], None]) -> None:
    pass


def test_a_body_arrives_whole_and_its_fingerprint_matches(side: Side) -> None:
    array = np.arange(5 * MIB // 8, dtype="<i8")
    body = outgoing(b"header", array, b"", b"tail")
    receive_buffer = fetch(side, body)
    assert bytes(receive_buffer.body()) == b"header" + array.tobytes() + b"tail"
    assert receive_buffer.digest() == body.fingerprint


def test_a_fetch_may_begin_anywhere(side: Side) -> None:
    body = outgoing(bytes(range(256)) * 1000)
    receive_buffer = ReceiveBuffer(body.size_bytes)
    receive_buffer.write(memoryview(bytes(range(256)))[:100])
    fetch(side, body, receive_buffer=receive_buffer)
    assert bytes(receive_buffer.body()) == bytes(range(256)) * 1000
    assert receive_buffer.digest() == body.fingerprint


def test_a_ticket_is_good_for_one_fetch(side: Side) -> None:
    body = outgoing(b"once")
    ticket = side.issue(b"t", body)
    side.client.fetch(ticket, ReceiveBuffer(4), ignore)
    with pytest.raises(TicketRefused, match="used, expired, or never issued"):
        side.client.fetch(ticket, ReceiveBuffer(4), ignore)


def test_a_ticket_expires(side: Side) -> None:
    ticket = side.issue(b"t", outgoing(b"late"))
    side.clock.now_s += LIFETIME_S + 1
    with pytest.raises(TicketRefused):
        side.client.fetch(ticket, ReceiveBuffer(4), ignore)


def test_a_newer_ticket_of_a_transfer_voids_the_older(side: Side) -> None:
    older = side.issue(b"t", outgoing(b"body"))
    side.issue(b"t", outgoing(b"body"))
    with pytest.raises(TicketRefused):
        side.client.fetch(older, ReceiveBuffer(4), ignore)


def test_a_revoked_transfer_has_no_ticket(side: Side) -> None:
    ticket = side.issue(b"ended", outgoing(b"body"))
    side.tickets.revoke(b"ended")
    with pytest.raises(TicketRefused):
        side.client.fetch(ticket, ReceiveBuffer(4), ignore)


@given(st.binary(max_size=64))
def test_guessed_tickets_are_refused(side: Side, guess: bytes) -> None:
    with pytest.raises(TicketRefused):
        side.client.fetch(guess, ReceiveBuffer(4), ignore)


def test_the_ticket_of_another_object_does_not_fit(side: Side) -> None:
    ticket = side.issue(b"t", outgoing(b"another, longer object"))
    with pytest.raises(TransferFailed, match="announced with 4"):
        side.client.fetch(ticket, ReceiveBuffer(4), ignore)


def test_a_stranger_does_not_get_through_the_handshake(side: Side) -> None:
    stranger = create_identity()
    client = FlightClient(
        "127.0.0.1", side.server.port, stranger, side.owner.certificate_pem, Decoding(side.pool, 1)
    )
    with pytest.raises(PathUnavailable):
        client.probe(3.0)
    client.close()


def test_a_client_without_a_certificate_does_not_get_through(side: Side) -> None:
    client = flight.FlightClient(
        f"grpc+tls://127.0.0.1:{side.server.port}",
        tls_root_certs=side.owner.certificate_pem,
        override_hostname="duetlink",
    )
    with pytest.raises((flight.FlightUnavailableError, flight.FlightInternalError)):
        list(client.do_action(flight.Action("probe", b""), flight.FlightCallOptions(timeout=3)))
    client.close()


def test_a_server_that_is_not_the_peer_is_refused(side: Side) -> None:
    impostor = create_identity()
    client = FlightClient(
        "127.0.0.1", side.server.port, side.scientist, impostor.certificate_pem, Decoding(side.pool, 1)
    )
    with pytest.raises(PathUnavailable):
        client.probe(3.0)
    client.close()


@pytest.mark.parametrize("kind", ["put", "exchange", "info", "list", "schema", "action"])
def test_nothing_but_get_is_served(side: Side, kind: str) -> None:
    client = arrow_client(side.client)
    descriptor = flight.FlightDescriptor.for_path("x")
    with pytest.raises((NotImplementedError, pa.ArrowException)):
        if kind == "put":
            writer, _ = client.do_put(descriptor, pa.schema([("x", pa.uint8())]))
            writer.close()
        elif kind == "exchange":
            writer, reader = client.do_exchange(descriptor)
            writer.done_writing()
            reader.read_all()
        elif kind == "info":
            client.get_flight_info(descriptor)
        elif kind == "list":
            list(client.list_flights())
        elif kind == "schema":
            client.get_schema(descriptor)
        else:
            list(client.do_action(flight.Action("shutdown", b"")))


def test_garbage_on_the_port_leaves_the_server_serving(side: Side) -> None:
    for garbage in (
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        os.urandom(4096),
        b"\x16\x03\x01\xff\xff" + bytes(70_000),
    ):
        with (
            socket.create_connection(("127.0.0.1", side.server.port), timeout=5) as plain,
            contextlib.suppress(ConnectionError),
        ):
            plain.sendall(garbage)
    assert bytes(fetch(side, outgoing(b"still here")).body()) == b"still here"


def test_two_fetches_at_once(side: Side) -> None:
    bodies = [outgoing(np.full(3 * MIB, value, np.uint8)) for value in (1, 2)]
    receive_buffers = [ReceiveBuffer(body.size_bytes) for body in bodies]
    tickets = [side.issue(bytes([index]), body) for index, body in enumerate(bodies)]
    threads = [
        threading.Thread(target=side.client.fetch, args=(ticket, receive_buffer, ignore))
        for ticket, receive_buffer in zip(tickets, receive_buffers, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [receive_buffer.digest() for receive_buffer in receive_buffers] == [
        body.fingerprint for body in bodies
    ]


def test_a_guest_has_so_many_streams_at_once_and_no_more(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duetlink.net.flight.guest.MOST_STREAMS", 2)
    body, gate = outgoing(b"held back"), Gate()
    gate.pause(True)
    receive_buffers = [ReceiveBuffer(body.size_bytes) for _ in range(3)]

    def ticket(number: int) -> bytes:
        order = Order(body.whole, lambda now_s: PLAIN, gate=gate)
        return side.tickets.issue(bytes([number]), body, order, most_chunk_bytes=MIB)

    with ThreadPoolExecutor(3) as fetching:
        # in whichever order they come: two wait for the gate, one is refused
        futures = [
            fetching.submit(side.client.fetch, ticket(number), receive_buffer, ignore)
            for number, receive_buffer in enumerate(receive_buffers)
        ]
        refused = next(as_completed(futures, 10))
        with pytest.raises(PathUnavailable, match="2 streams are open"):
            refused.result()
        assert sum(future.done() for future in futures) == 1
        gate.pause(False)
        for future in futures:
            if future is not refused:
                future.result(10)
    assert sum(receive_buffer.complete for receive_buffer in receive_buffers) == 2
    assert bytes(fetch(side, outgoing(b"again")).body()) == b"again"


def test_a_stopped_receive_buffer_keeps_its_prefix(side: Side) -> None:
    body = outgoing(np.arange(8 * MIB, dtype=np.uint8))
    receive_buffer = ReceiveBuffer(body.size_bytes, lambda size_bytes, wire_bytes: receive_buffer.stop())
    fetch(side, body, receive_buffer=receive_buffer)
    assert receive_buffer.position_bytes == MIB
    receive_buffer.resume()
    whole = ReceiveBuffer(body.size_bytes)
    fetch(side, body, receive_buffer=whole)
    assert whole.digest() == body.fingerprint


# -- bodies and fingerprints, without a network ----------------------------------------------------------


@given(st.lists(st.integers(0, LEAF_BYTES), max_size=6))
def test_a_fingerprint_does_not_depend_on_the_pieces(cuts: list[int]) -> None:
    data = memoryview(bytes(2 * LEAF_BYTES + 17))
    bounds = [0, *sorted(cuts), len(data)]
    digest = Fingerprint()
    for start, end in itertools.pairwise(bounds):
        digest.update(data[start:end])
    assert digest.digest() == Outgoing([data], len(data)).fingerprint


def test_a_fingerprint_sees_one_flipped_bit() -> None:
    data = bytearray(LEAF_BYTES + 1)
    before = outgoing(bytes(data)).fingerprint
    data[-1] ^= 1
    assert outgoing(bytes(data)).fingerprint != before


def test_the_empty_body_has_a_fingerprint() -> None:
    assert Fingerprint().digest() == Outgoing([], 0).fingerprint


def test_a_receive_buffer_without_memory_says_so() -> None:
    receive_buffer = ReceiveBuffer(1 << 60)
    with pytest.raises(TransferFailed, match="no memory"):
        receive_buffer.write(memoryview(b"x"))


# -- certificates ----------------------------------------------------------------------------------------


def test_a_certificate_of_ours_passes_its_own_check() -> None:
    identity = create_identity()
    assert check_certificate(identity.certificate_pem) == identity.certificate_pem
    assert "PRIVATE" not in repr(identity)


def test_two_certificates_are_refused() -> None:
    with pytest.raises(RemoteProtocolError):
        check_certificate(create_identity().certificate_pem + create_identity().certificate_pem)


@given(st.binary(max_size=300))
def test_garbage_is_no_certificate(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        check_certificate(data)
    with pytest.raises(RemoteProtocolError):
        check_certificate(b"-----BEGIN CERTIFICATE-----\n" + data + b"\n-----END CERTIFICATE-----\n")


def test_what_an_authority_has_issued_passes_the_check_of_whom_it_is_for() -> None:
    authority, identity = Authority(), create_identity()
    issued = authority.issue(identity.certificate_pem, create_subject())
    client = check_issued(issued, identity)
    assert client.certificate_pem == issued
    assert client.private_key_pem == identity.private_key_pem


@pytest.mark.parametrize("kind", ["other key", "self-signed", "two", "garbage", "authority"])
def test_anything_else_that_a_peer_issues_is_refused(kind: str) -> None:
    authority, identity = Authority(), create_identity()
    issued = {
        "other key": authority.issue(create_identity().certificate_pem, b"x"),
        "self-signed": identity.certificate_pem,  # for a server
        "two": 2 * authority.issue(identity.certificate_pem, b"x"),
        "garbage": b"no certificate",
        "authority": authority.certificate_pem,
    }[kind]
    with pytest.raises(RemoteProtocolError):
        check_issued(issued, identity)


def test_an_authority_signs_only_for_a_leaf() -> None:
    with pytest.raises(RemoteProtocolError, match="leaf"):
        Authority().issue(Authority().certificate_pem, b"x")


def signed_by(issuer: Identity, key: Identity, subject: str) -> Identity:
    """What a guest could make with the certificate that it was issued: one for another guest's name."""
    by = x509.load_pem_x509_certificate(issuer.certificate_pem)
    signing = serialization.load_pem_private_key(issuer.private_key_pem, None)
    assert isinstance(signing, ec.EllipticCurvePrivateKey)
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, subject)]))
        .issuer_name(by.subject)
        .public_key(x509.load_pem_x509_certificate(key.certificate_pem).public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(subject)]), critical=False)
        .sign(signing, hashes.SHA256())
    )
    chain = certificate.public_bytes(serialization.Encoding.PEM) + issuer.certificate_pem
    return Identity(chain, key.private_key_pem)


def test_a_guest_cannot_sign_itself_another_guests_name(side: Side) -> None:
    forged = signed_by(side.scientist, create_identity(), "other")
    side.server.admit(b"other", Guest(TicketTable(side.clock), RateCap()))
    client = FlightClient(
        "127.0.0.1", side.server.port, forged, side.owner.certificate_pem, Decoding(side.pool, 1)
    )
    with pytest.raises(PathUnavailable):
        client.probe(3.0)
    client.close()
    side.server.dismiss(b"other")


def test_whoever_is_not_admitted_hears_what_the_holder_of_a_wrong_ticket_hears(side: Side) -> None:
    stranger = client_of(side.authority, b"nobody")
    client = FlightClient(
        "127.0.0.1", side.server.port, stranger, side.owner.certificate_pem, Decoding(side.pool, 1)
    )
    with pytest.raises(PathUnavailable, match="used, expired, or never issued"):
        client.probe(3.0)
    ticket = side.issue(b"t", outgoing(b"body"))
    with pytest.raises(TicketRefused, match="used, expired, or never issued"):
        client.fetch(ticket, ReceiveBuffer(4), ignore)
    side.client.fetch(ticket, ReceiveBuffer(4), ignore)
    client.close()


# in a process of its own: gRPC writes past Python, and reads how much it shall write once
PORT_AND_STRANGERS = """
import contextlib, os, socket, ssl, sys, time
from concurrent.futures import ThreadPoolExecutor
from pyarrow import flight
from duetlink.net.flight.certificate import HOST_NAME, Authority, check_issued, create_identity
from duetlink.net.flight.guest import Guest
from duetlink.net.flight.server import FlightServer
from duetlink.net.flight.tickets import TicketTable
from duetlink.data.tuning import RateCap

owner, scientist, stranger = create_identity(), create_identity(), create_identity()
authority = Authority()
scientist = check_issued(authority.issue(scientist.certificate_pem, b"scientist"), scientist)
before = dict(os.environ)
tickets, pool = TicketTable(time.monotonic), ThreadPoolExecutor(2)
server = FlightServer(owner, authority.certificate_pem, pool, host="127.0.0.1")
server.admit(b"scientist", Guest(tickets, RateCap()))
assert dict(os.environ) == before
refused = 0


def connect():
    return socket.create_connection(("127.0.0.1", server.port), 10)


request = b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n"
for rubbish in (b"rubbish" * 100, request, b"\\x16\\x03\\x01" + b"\\xff" * 999):
    with connect() as plain, contextlib.suppress(ConnectionError):
        plain.sendall(rubbish)
        while plain.recv(1000):
            pass
    refused += 1
for certificate in (None, stranger):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    if certificate is not None:
        for name, content in (("key", certificate.private_key_pem), ("crt", certificate.certificate_pem)):
            open(os.path.join(sys.argv[1], name), "wb").write(content)
        context.load_cert_chain(os.path.join(sys.argv[1], "crt"), os.path.join(sys.argv[1], "key"))
    try:
        with connect() as plain, context.wrap_socket(plain) as wrapped:
            refused += wrapped.recv(1000) == b""
    except OSError:
        refused += 1

# the peer itself, with calls that there are not
peer = flight.FlightClient(
    f"grpc+tls://127.0.0.1:{server.port}",
    tls_root_certs=owner.certificate_pem,
    cert_chain=scientist.certificate_pem,
    private_key=scientist.private_key_pem,
    override_hostname=HOST_NAME,
)
calls = (
    lambda: peer.do_get(flight.Ticket(b"rubbish")).read_all(),
    lambda: list(peer.do_action(flight.Action("rubbish", b""))),
    lambda: list(peer.list_flights()),
    lambda: list(peer.list_actions()),
    lambda: peer.get_flight_info(flight.FlightDescriptor.for_path("x")),
)
for call in calls:
    try:
        call()
    except (flight.FlightError, NotImplementedError, OSError):
        refused += 1
server.close()
print(refused)
"""


def test_the_environment_that_others_read_meanwhile_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRPC_VERBOSITY", raising=False)
    before = dict(os.environ)
    shown = [sys.executable, "-c", "import os; print(os.environ.get('GRPC_VERBOSITY'))"]
    with silenced():
        assert dict(os.environ) == before
        inside = subprocess.run(shown, capture_output=True, timeout=60)  # has what C code here sees
    assert inside.stdout.split() == [b"NONE"]
    assert subprocess.run(shown, capture_output=True, timeout=60).stdout.split() == [b"None"]


def test_strangers_at_the_port_write_nothing_into_the_owners_notebook(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_VERBOSITY"}
    done = subprocess.run(
        [sys.executable, "-c", PORT_AND_STRANGERS, str(tmp_path)],
        capture_output=True,
        env=environment,
        timeout=60,
        cwd=Path(__file__).resolve().parents[3],
    )
    assert done.stderr.decode() == ""
    assert done.stdout == b"10\n"
