"""Texts for a person: why a STUN or TURN server could not be used, and what to do about it."""

from __future__ import annotations

import ssl
from typing import Literal

from duetlink.net.stun.lending import expiry_s
from duetlink.net.stun.wire import NoTls

MAX_FOREIGN = 120  # characters of a server's own words that are repeated

Refused = Literal["limited", "failed"]

# X509_V_ERR_* of OpenSSL
_UNKNOWN_AUTHORITY = "its certificate comes from an authority that this machine does not trust"
_CERTIFICATES = {
    9: "its certificate is not valid yet: is this machine's clock right?",
    10: "its certificate has expired",
    18: "its certificate is self-signed, and no authority that this machine trusts has signed it",
    19: _UNKNOWN_AUTHORITY,
    20: _UNKNOWN_AUTHORITY,
    21: _UNKNOWN_AUTHORITY,
    23: "its certificate has been revoked",
    62: "its certificate is for another name",
    64: "its certificate is for another address",
}

# Error codes of an allocation (RFC 8656 §18). "limited": the same request may succeed later.
_REFUSALS: dict[int, tuple[Refused, str, str]] = {
    300: ("failed", "it sends its users to another server (300)", "configure that server's URL"),
    401: (
        "failed",
        "it refuses the credentials (401): user name or password is wrong, or they have expired",
        "check 'username' and 'credential'; the server's time and this machine's must agree as well",
    ),
    403: ("failed", "it forbids this user to relay (403)", "ask its operator"),
    438: (
        "failed",
        "it calls even its own fresh nonce stale (438)",
        "the server is misconfigured, or several servers answer under one name: tell its operator",
    ),
    441: (
        "failed",
        "the credentials are not those that its allocation was made with (441)",
        "check 'username' and 'credential'; try again in a minute",
    ),
    486: (
        "limited",
        "the credentials are right, but all allocations of this user are taken (486)",
        "wait until others have ended (up to ten minutes), or have the operator raise user-quota",
    ),
    508: (
        "limited",
        "the credentials are right, but the server has no room for an allocation (508)",
        "try again later, or use another server",
    ),
}
_NO_RELAY = (400, 404, 405, 420, 500)


def foreign(text: str) -> str:
    """Cut a server's own words to a safe length."""
    return text if len(text) <= MAX_FOREIGN else text[:MAX_FOREIGN] + "…"


def trouble(error: OSError) -> tuple[str, str]:
    """Return a clause that says what happened, and advice for the user."""
    if isinstance(error, ssl.SSLCertVerificationError):
        known = _CERTIFICATES.get(error.verify_code, f"its certificate is refused ({error.verify_message})")
        return known, "ask its operator to renew the certificate, or use the name that it is for"
    if isinstance(error, ssl.SSLError | NoTls):
        reason = foreign(getattr(error, "reason", None) or "no answer")
        return f"it does not speak TLS there ({reason})", "check the port; turn: and stun: are without TLS"
    if isinstance(error, TimeoutError):
        advice = "check address and port; if the server is up, a firewall on the way drops it"
        return "nothing answers", advice
    if isinstance(error, ConnectionRefusedError):
        advice = "check the port, and that the server runs"
        return "the host is there, but nothing listens on this port", advice
    return foreign(error.strerror or str(error)), "check the address, and this machine's network"


def refusal(
    code: int, reason: str, username: str | None, now_s: float, *, signed: bool
) -> tuple[Refused, str, str]:
    """Return outcome, clause and advice for an error code of a TURN server.

    `signed`: the request carried the credentials. `now_s` is Unix time.
    """
    end_s = expiry_s(username)
    if code == 401 and not signed:
        return (
            "failed",
            "it wants credentials (401), and none are configured",
            "add 'username' and 'credential' to this server in DUETLINK_ICE_SERVERS",
        )
    if code in (401, 441) and end_s is not None and end_s < now_s:
        return (
            "failed",
            f"it refuses the credentials ({code}): they expired {_duration(now_s - end_s)} ago",
            "get fresh ones: credentials of this kind are made for a limited time",
        )
    if code in _NO_RELAY:
        return "failed", f"it does not relay ({code}: {foreign(reason)})", "is this a TURN server at all?"
    return _REFUSALS.get(code, ("failed", f"it refuses ({code}: {foreign(reason)})", "ask its operator"))


def _duration(time_s: float) -> str:
    for unit, size_s in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if time_s >= size_s:
            count = int(time_s // size_s)
            return f"{count} {unit}{'s' if count > 1 else ''}"
    return "less than a minute"
