"""A real coturn with two addresses, and TLS certificates good and bad."""

from __future__ import annotations

import datetime
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from duetlink.net.stun.message import binding_request
from tests.free_port import free_port

MakeServerTls = Callable[..., ssl.SSLContext]


@pytest.fixture
def coturn(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[int]:
    """Port of a server on 127.0.0.1 and 127.0.0.2 (so with RFC 5780); user `u`, password `p`.

    An indirect parameter is one more option.
    """
    if shutil.which("turnserver") is None:
        pytest.skip("coturn is not installed (apt-get install coturn)")
    port = free_port()
    arguments = (
        "-n --no-tls --no-dtls --no-cli --lt-cred-mech --realm duetlink --user u:p --allow-loopback-peers "
        f"-L 127.0.0.1 -L 127.0.0.2 -p {port} --alt-listening-port {free_port()} "
        f"--pidfile {tmp_path / 'pid'} {getattr(request, 'param', '')}"
    )
    server = subprocess.Popen(
        ["turnserver", *arguments.split()], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    # one that has just started answers some source ports later than others
    for _ in range(20):
        while not answers_stun(port):
            assert server.poll() is None, "coturn ended"
    yield port
    server.terminate()
    server.wait(10)


def answers_stun(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(0.2)
        client.connect(("127.0.0.1", port))
        try:
            client.send(binding_request())
            return bool(client.recv(2048))
        except OSError:
            return False


class Authority:
    """Makes certificates for servers, and a client's context that trusts them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self._sign("authority", self._key, self._key, is_authority=True)

    def client(self) -> ssl.SSLContext:
        pem = self.certificate.public_bytes(serialization.Encoding.PEM).decode()
        return ssl.create_default_context(cadata=pem)

    def server(self, host: str = "127.0.0.1", *, days: int = 1, self_signed: bool = False) -> ssl.SSLContext:
        """A server's context, for `host`; expired where `days` is negative."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(host, key, key if self_signed else self._key, days=days)
        path = self._directory / "server.pem"
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context

    def _sign(
        self,
        host: str,
        key: ec.EllipticCurvePrivateKey,
        signer: ec.EllipticCurvePrivateKey,
        *,
        days: int = 1,
        is_authority: bool = False,
    ) -> x509.Certificate:
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        issuer = name if signer is key else self.certificate.subject
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=9))
            .not_valid_after(now + datetime.timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )
        if not is_authority:
            try:
                alternative: x509.GeneralName = x509.IPAddress(ip_address(host))
            except ValueError:
                alternative = x509.DNSName(host)
            builder = builder.add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
        return builder.sign(signer, hashes.SHA256())


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def dead_port() -> Iterator[int]:
    """A UDP port that takes everything and answers nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        yield silent.getsockname()[1]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """On loopback whoever has not answered in these times never will."""
    monkeypatch.setattr("duetlink.net.stun.wire.ASK_TIMEOUT_S", 0.6)
    monkeypatch.setattr("duetlink.tools.doctor.servers.ALLOCATE_TIMEOUT_S", 0.6)
