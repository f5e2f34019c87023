"""What kept a server from being used, in words, and what to do about it."""

from __future__ import annotations

import ssl

from duetlink.tools.doctor.finding import foreign

# X509_V_ERR_* of OpenSSL
_UNKNOWN_AUTHORITY = "its certificate comes from an authority that this machine does not trust"
_CERTIFICATES = {
    9: "its certificate is not valid yet: is this machine's clock right?",
    10: "its certificate has expired",
    18: "its certificate is self-signed, and nobody whom this machine trusts vouches for it",
    19: _UNKNOWN_AUTHORITY,
    20: _UNKNOWN_AUTHORITY,
    21: _UNKNOWN_AUTHORITY,
    23: "its certificate has been revoked",
    62: "its certificate is for another name",
    64: "its certificate is for another address",
}


class NoTls(ConnectionError):
    """A TCP connection came about, and no TLS on it in time."""


def trouble(error: OSError) -> tuple[str, str]:
    """A clause that says what happened, and the advice."""
    if isinstance(error, ssl.SSLCertVerificationError):
        known = _CERTIFICATES.get(error.verify_code, f"its certificate is refused ({error.verify_message})")
        return known, "have its operator mend the certificate, or use the name that it is for"
    if isinstance(error, ssl.SSLError | NoTls):
        reason = foreign(getattr(error, "reason", None) or "no answer")
        return f"it does not speak TLS there ({reason})", "check the port; turn: and stun: are without TLS"
    if isinstance(error, TimeoutError):
        return (
            "nothing answers",
            "check address and port; if the server is up, a firewall on the way drops it",
        )
    if isinstance(error, ConnectionRefusedError):
        return (
            "the host is there, but nothing listens on this port",
            "check the port, and that the server runs",
        )
    return foreign(error.strerror or str(error)), "check the address, and this machine's network"
