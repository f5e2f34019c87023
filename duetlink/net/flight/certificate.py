"""The ephemeral certificate of one side of one duet.

P-256, CA:FALSE, subjectAltName `duetlink`, self-signed, two days. Each side pins the other's: the pinned
certificate is the only root that its TLS accepts, for the server and for the client (mutual TLS).
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from duetlink.errors import RemoteProtocolError

HOST_NAME = "duetlink"
MAX_PEM_BYTES = 4096

_LIFETIME = datetime.timedelta(days=2)
_CLOCK_SKEW = datetime.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate and its private key, PEM-encoded."""

    certificate_pem: bytes
    private_key_pem: bytes = field(repr=False)


def create_identity() -> Identity:
    """A fresh key pair and its certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST_NAME)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST_NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Identity(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


def check_certificate(pem: bytes) -> bytes:
    """Return the peer's certificate if it is exactly one and of the kind above.

    Raises:
        RemoteProtocolError: it is not. A bundle would widen what TLS accepts, so one means one.
    """
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
    return certificate.public_bytes(serialization.Encoding.PEM)
