"""Tests the configured signaling server, or one that a notebook of this machine runs."""

from __future__ import annotations

from urllib.parse import urlsplit

from duetlink.errors import DuetError, SignalingRefused
from duetlink.net.signaling.client import WebSocketMailbox
from duetlink.net.signaling.discovery import configured, live_servers
from duetlink.settings import Settings
from duetlink.tools.doctor.finding import Finding
from duetlink.tools.doctor.names import Lookup, NameUnresolved, resolve

_ADVICE = "check DUETLINK_SIGNALING, and that the server runs (duetlink signal); pairing by hand needs none"


async def probe_signaling(settings: Settings, timeout_s: float, lookup: Lookup | None) -> Finding:
    """Open a mailbox at the server and close it at once. Faults of a network or server raise nothing."""
    if settings.signaling == "paste":
        return Finding(
            "signaling", "ok", "Pairing by hand is set: no server is needed.", "", {"server": "paste"}
        )
    try:
        server = configured(settings)
    except DuetError:  # whose text repeats the address, which may hold a password
        words = "DUETLINK_SIGNALING is no address of a signaling server."
        advice = "it looks like ws://host:4040 or wss://host, with neither user name nor password"
        return Finding("signaling", "failed", words, advice, {"server": ""})
    if server is None:
        server = next(iter(await live_servers()), None)
    if server is None:
        return Finding(
            "signaling",
            "ok",
            "No signaling server is configured: launch() starts one in the notebook, for peers that reach "
            "this machine.",
            "for peers elsewhere, run duetlink signal where both reach it, and set DUETLINK_SIGNALING",
            {"server": None},
        )
    url, host = server.url, urlsplit(server.url).hostname or ""
    details = {"server": url}
    # resolved here, since the WebSocket client's own look-up has no time limit
    resolved = (await resolve((host,), timeout_s, lookup))[host]
    if isinstance(resolved, NameUnresolved):
        return Finding("signaling", "failed", f"{url}: {resolved}.", _ADVICE, details)
    try:
        mailbox, _ = await WebSocketMailbox.claim(url, lifetime_s=1)
        await mailbox.close()
    except SignalingRefused:
        words = f"{url} answers, and refuses a new mailbox: its limits are reached."
        return Finding("signaling", "limited", words, "try again in a minute", details)
    except DuetError as error:
        return Finding("signaling", "failed", f"{error}.", "pairing by hand needs no server", details)
    return Finding("signaling", "ok", f"{url} answers, and opens mailboxes.", "", details)
