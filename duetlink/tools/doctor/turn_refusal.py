"""What a TURN server's refusal means, and what to do about it."""

from __future__ import annotations

from duetlink.tools.doctor.finding import Outcome
from duetlink.tools.doctor.turn_client import TurnRefused


def refusal_words(refused: TurnRefused, username: str | None, now_s: float) -> tuple[Outcome, str, str]:
    """Outcome, clause and advice for an error code (RFC 8656 §18). `now_s` is the time of day (Unix)."""
    code, expired_s = refused.code, _expired_s(username, now_s)
    if code == 401 and not refused.authenticated:
        return (
            "failed",
            "it wants credentials (401), and none are configured",
            "add 'username' and 'credential' to this server in DUETLINK_ICE_SERVERS",
        )
    if code in (401, 441) and expired_s is not None:
        return (
            "failed",
            f"it refuses the credentials ({code}): they expired {_duration(expired_s)} ago",
            "get fresh ones: credentials of this kind are made for a limited time",
        )
    if code == 401:
        return (
            "failed",
            "it refuses the credentials (401): user name or password is wrong, or they have expired",
            "check 'username' and 'credential'; the server's time and this machine's must agree as well",
        )
    if code == 441:
        return (
            "failed",
            "the credentials are not those that its allocation was made with (441)",
            "check 'username' and 'credential'; try again in a minute",
        )
    if code == 438:
        return (
            "failed",
            "it calls even its own fresh nonce stale (438)",
            "the server is misconfigured, or several servers answer under one name: tell its operator",
        )
    if code == 486:
        return (
            "limited",
            "the credentials are right, but all allocations of this user are taken (486)",
            "wait until others have ended (up to ten minutes), or have the operator raise user-quota",
        )
    if code == 508:
        return (
            "limited",
            "the credentials are right, but the server has no room for an allocation (508)",
            "try again later, or use another server",
        )
    if code == 403:
        return "failed", "it forbids this user to relay (403)", "ask its operator"
    if code == 300:
        return "failed", "it sends its users to another server (300)", "configure that server's URL"
    if code in (400, 404, 405, 420, 500):
        return "failed", f"it does not relay ({code}: {refused.reason})", "is this a TURN server at all?"
    return "failed", f"it refuses ({code}: {refused.reason})", "ask its operator"


def _expired_s(username: str | None, now_s: float) -> float | None:
    """How long credentials have been over whose user name begins with a Unix time, `1763700000:ada`."""
    stamp = (username or "").partition(":")[0]
    if not stamp.isascii() or not stamp.isdigit() or len(stamp) != 10:
        return None
    return now_s - int(stamp) if int(stamp) < now_s else None


def _duration(time_s: float) -> str:
    for unit, size_s in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if time_s >= size_s:
            count = int(time_s // size_s)
            return f"{count} {unit}{'s' if count > 1 else ''}"
    return "less than a minute"
