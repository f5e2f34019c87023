"""Whether UDP leaves this network at all, from what became of every server that was asked."""

from __future__ import annotations

from collections.abc import Sequence

from duetlink.tools.doctor.finding import Finding


def udp_finding(servers: Sequence[Finding]) -> Finding:
    """`servers` are the findings named stun and turn."""
    answered = {True: 0, False: 0}  # by UDP, by TCP
    asked = 0
    for finding in servers:
        by_udp = finding.details["transport"] == "udp"
        asked += by_udp
        answered[by_udp] += _answered(finding)
    details = {"asked": asked, "answered": answered[True], "answered_by_tcp": answered[False]}
    if answered[True]:
        return Finding("udp", "ok", "UDP goes out, and answers come back.", "", details)
    if not asked:
        return Finding(
            "udp",
            "unknown",
            "Nobody outside was asked by UDP: no STUN server is configured.",
            'set DUETLINK_ICE_SERVERS, such as \'[{"urls": "stun:stun.example.org"}]\'',
            details,
        )
    if answered[False]:
        return Finding(
            "udp",
            "failed",
            "UDP is blocked: servers answer by TCP, none by UDP.",
            "have UDP allowed, which is faster; a TURN server over TCP or TLS can carry the link meanwhile",
            details,
        )
    return Finding(
        "udp",
        "failed",
        "No server answers by UDP: it is blocked, or none of them is up.",
        "try a server that is known to be up; a TURN server over TLS on port 443 passes most firewalls",
        details,
    )


def _answered(finding: Finding) -> bool:
    return bool(finding.details.get("reachable", finding.outcome == "ok"))
