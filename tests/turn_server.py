"""A real TURN server on loopback for tests: coturn, with a certificate of its own where TLS is wanted."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from aioice import stun
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.free_port import free_port

USERNAME, CREDENTIAL = "u", "p"

_OPTIONS = "-n --no-dtls --no-cli --lt-cred-mech --realm duetlink --allow-loopback-peers -L 127.0.0.1"


@dataclass(frozen=True, slots=True)
class TurnServer:
    """Where it listens; `certificate` signs for 127.0.0.1."""

    port: int
    tls_port: int
    certificate: Path

    @property
    def udp(self) -> str:
        return f"turn:127.0.0.1:{self.port}"

    @property
    def tcp(self) -> str:
        return f"turn:127.0.0.1:{self.port}?transport=tcp"

    @property
    def tls(self) -> str:
        return f"turns:127.0.0.1:{self.tls_port}"


@contextlib.contextmanager
def run_turn_server(directory: Path) -> Iterator[TurnServer]:
    """A coturn that has begun to answer; skips the test where there is none."""
    if shutil.which("turnserver") is None:
        pytest.skip("coturn is not installed (apt-get install coturn)")
    port, tls_port = free_port(), free_port()
    certificate, key = _make_certificate(directory)
    command = ["turnserver", *_OPTIONS.split(), "--user", f"{USERNAME}:{CREDENTIAL}"]
    command += ["-p", str(port), "--tls-listening-port", str(tls_port), "--pidfile", str(directory / "pid")]
    command += ["--cert", str(certificate), "--pkey", str(key)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        # one that has just started answers some source ports later than others
        for _ in range(20):
            while not _answers(port):
                assert server.poll() is None, "coturn ended"
        yield TurnServer(port, tls_port, certificate)
    finally:
        server.kill()  # asked to end, it takes five seconds
        server.wait(10)


def _answers(port: int) -> bool:
    request = bytes(stun.Message(message_method=stun.Method.BINDING, message_class=stun.Class.REQUEST))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(0.2)
        client.connect(("127.0.0.1", port))
        try:
            client.send(request)
            return bool(client.recv(2048))
        except OSError:
            return False


def _make_certificate(directory: Path) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1 and its key."""
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .sign(private, hashes.SHA256())
    )
    paths = directory / "turn.pem", directory / "turn.key"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return paths
