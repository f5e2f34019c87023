"""Findings about the paths of an open link, with advice on how to get a better path."""

from __future__ import annotations

from collections.abc import Sequence

from duetlink.base.quantities import rate_text
from duetlink.net.paths.path_selector import PathStatus
from duetlink.tools.doctor.finding import Finding, Outcome

_ADVICE = {
    "local": "only for two notebooks of one user on one machine",
    "tcp": "put both machines into one network or VPN, or let peers reach this one by TCP",
    "punched": "it depends on both NATs; a STUN server on both sides helps",
    "udp": "configure a STUN server on both sides, and have UDP allowed on both networks",
    "relay": "configure a TURN server on either side",
    "channel": "it comes with the link: if it is down, the link is about to be",
}
# idle: not needed now
_OUTCOMES: dict[str, Outcome] = {"up": "ok", "idle": "ok", "opening": "unknown", "unknown": "unknown"}


def link_findings(paths: Sequence[PathStatus], used: str | None) -> list[Finding]:
    """Return one finding for each path, with advice for paths that are preferred to the one in use."""
    findings, better = [], True
    for path in paths:
        better = better and path.name != used
        outcome = _OUTCOMES.get(path.state, "limited")
        words = _words(path, path.name == used)
        advice = _ADVICE.get(path.name, "") if better and path.state in ("down", "opening") else ""
        details = {
            "state": path.state,
            "why": path.why,
            "used": path.name == used,
            "bytes_per_s": path.bytes_per_s,
        }
        findings.append(Finding(f"path {path.name}", outcome, words, advice, details))
    return findings


def _words(path: PathStatus, used: bool) -> str:
    if path.state == "up":
        words = "Up, and the best there is: it carries this link's arrays" if used else "Up, in reserve"
        return f"{words}{_speed(path)}."
    if path.state == "opening":
        return "Being opened."
    return f"{path.state.capitalize()}: {path.why or 'no reason given'}."


def _speed(path: PathStatus) -> str:
    return "" if path.bytes_per_s is None else f"; {rate_text(path.bytes_per_s)} when last measured"
