"""The temporary certificates of an endpoint: its own, and those that it issues to the clients of its peers.

The Flight server of an endpoint serves a changing set of peers, but gRPC accepts the root certificates for
clients only once, when the server is made. So the only root is an authority that the endpoint makes for this
purpose (`Authority`). In the introduction each side sends its own self-signed certificate. The other side
signs the public key in it, under a random name that stands for this one link, and returns the result. A
client then shows the certificate that this peer issued, and pins the peer's own one. A party without the
private key fails both handshakes, and the name in the client's certificate tells the server to which link a
call belongs. The name is valid as long as its link exists.

All keys are P-256. All certificates but the authority's are leafs (CA:FALSE). All of them end with the
process.
"""

from __future__ import annotations

import datetime
import secrets
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from duetlink.errors import RemoteProtocolError

HOST_NAME = "duetlink"
MAX_PEM_BYTES = 4096

# Longer than any kernel runs: certificates must be valid as long as the endpoint. A client's access ends with
# its link, not by expiry.
_LIFETIME = datetime.timedelta(days=400)
_CLOCK_SKEW = datetime.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate and its private key, PEM-encoded."""

    certificate_pem: bytes
    private_key_pem: bytes = field(repr=False)


def create_identity() -> Identity:
    """Return a new key pair and its self-signed certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(HOST_NAME)
    certificate = _leaf(name, name, key.public_key(), HOST_NAME).sign(key, hashes.SHA256())
    return Identity(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


def create_subject() -> bytes:
    """Return a random name for one link."""
    return f"{secrets.token_hex(16)}.{HOST_NAME}".encode("ascii")


class Authority:
    """Signs the certificates of the clients that may call this endpoint's Flight server. Thread-safe."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = _name(f"{secrets.token_hex(16)} clients")
        certificate = (
            _dated(self._subject, self._subject, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(sign_certificates=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate_pem = certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, peer_certificate_pem: bytes, subject: bytes) -> bytes:
        """Return a certificate with the name `subject` for the key in the peer's certificate.

        Raises:
            RemoteProtocolError: the peer's certificate is not a P-256 leaf.
        """
        key = _checked(peer_certificate_pem).public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        name = subject.decode("ascii")
        certificate = (
            _leaf(_name(name), self._subject, key, name)
            .add_extension(_usage(sign_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        return certificate.public_bytes(serialization.Encoding.PEM)


def check_certificate(pem: bytes) -> bytes:
    """Return the peer's own certificate if it is exactly one P-256 leaf.

    Raises:
        RemoteProtocolError: it is not. Several certificates would widen what TLS accepts.
    """
    return _checked(pem).public_bytes(serialization.Encoding.PEM)


def check_issued(pem: bytes, identity: Identity) -> Identity:
    """Return the identity with which this side's clients authenticate, using the certificate the peer issued.

    Raises:
        RemoteProtocolError: it is not exactly one client leaf with the key of `identity`.
    """
    certificate = _checked(pem)
    mine = x509.load_pem_x509_certificate(identity.certificate_pem)
    if _key_bytes(certificate) != _key_bytes(mine):
        raise RemoteProtocolError("the peer issued a certificate for a key that is not this side's")
    try:
        usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
        purposes = list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except (ValueError, x509.ExtensionNotFound) as error:
        raise RemoteProtocolError(f"the certificate that the peer issued cannot be used: {error}") from None
    if usage != _usage(sign_certificates=False) or purposes != [ExtendedKeyUsageOID.CLIENT_AUTH]:
        raise RemoteProtocolError("the peer must issue a certificate that is for clients only")
    return Identity(certificate.public_bytes(serialization.Encoding.PEM), identity.private_key_pem)


def _checked(pem: bytes) -> x509.Certificate:
    if len(pem) > MAX_PEM_BYTES:
        raise RemoteProtocolError(f"the peer's certificate is {len(pem)} bytes long, over {MAX_PEM_BYTES}")
    try:
        (certificate,) = x509.load_pem_x509_certificates(pem)
        key = certificate.public_key()
        authority = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (ValueError, x509.ExtensionNotFound) as error:
        raise RemoteProtocolError(f"the peer's certificate cannot be used: {error}") from None
    if authority or not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise RemoteProtocolError("the peer's certificate must be a P-256 leaf (CA:FALSE)")
    return certificate


def _key_bytes(certificate: x509.Certificate) -> bytes:
    return certificate.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _dated(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _LIFETIME)
    )


def _leaf(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, host: str
) -> x509.CertificateBuilder:
    return (
        _dated(subject, issuer, key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
    )


def _usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not sign_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=sign_certificates,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
