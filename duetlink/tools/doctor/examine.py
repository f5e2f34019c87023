"""The whole examination: all probes in parallel, within one time limit."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from duetlink.errors import SettingError
from duetlink.net.paths.path_selector import PathStatus
from duetlink.net.stun.address import Address
from duetlink.net.stun.server_url import ServerUrl
from duetlink.settings import Settings
from duetlink.tools.doctor.addresses import addresses_finding, own_addresses
from duetlink.tools.doctor.finding import Finding
from duetlink.tools.doctor.link import link_findings
from duetlink.tools.doctor.names import Lookup, NameUnresolved, Resolved, resolve
from duetlink.tools.doctor.nat_probe import probe_nat
from duetlink.tools.doctor.report import Report
from duetlink.tools.doctor.servers import probe_server, udp_finding
from duetlink.tools.doctor.signaling_probe import probe_signaling

TIMEOUT_S = 10.0
MAX_URLS = 32  # URLs that are probed; the report says if there are more

_NO_URL = {"url": "", "transport": "", "reachable": False}
_log = logging.getLogger(__name__)


async def examine(
    settings: Settings,
    *,
    paths: Sequence[PathStatus] = (),
    used_path: str | None = None,
    timeout_s: float = TIMEOUT_S,
    lookup: Lookup | None = None,
    tls: ssl.SSLContext | None = None,
) -> Report:
    """Examine this machine's addresses, all configured servers, and the `paths` of a link if there is one.

    `used_path` is the path that the link uses. The examination takes at most `timeout_s`; an unfinished probe
    is reported as unknown. Nothing keeps running afterwards, except a system resolver that does not answer,
    on a daemon thread. `lookup` and `tls` replace the system's resolver and certificates.
    """
    started_s = time.monotonic()
    urls, unread = read_urls(settings)
    # looking up names may take a quarter of the time, so that a dead DNS server leaves time for the rest
    names = await resolve((url.host for url in urls), timeout_s / 4, lookup)
    tls = tls or ssl.create_default_context()
    own = own_addresses()
    time_left = _TimeLeft(started_s + timeout_s - time.monotonic(), timeout_s)
    nat, signaling, *asked = await asyncio.gather(
        time_left.answer("nat", probe_nat(_udp_servers(urls, names), [one.host for one in own])),
        time_left.answer("signaling", probe_signaling(settings, timeout_s / 4, lookup)),
        *(time_left.answer(url.kind, probe_server(url, names[url.host], tls), url) for url in urls),
    )
    asked = sorted([*unread, *asked], key=lambda finding: finding.name)  # stun before turn
    findings = (
        *link_findings(paths, used_path),
        addresses_finding(own),
        udp_finding(asked),
        nat,
        *asked,
        signaling,
    )
    return Report(findings, time.monotonic() - started_s, settings.allowed_paths)


def read_urls(settings: Settings) -> tuple[list[ServerUrl], list[Finding]]:
    """Return the URLs to probe, and findings for those that are invalid or too many."""
    urls: list[ServerUrl] = []
    unread: list[Finding] = []
    for number, server in enumerate(settings.ice_servers, 1):
        for text in server.urls:
            try:
                urls.append(ServerUrl.parse(text, server))
            except SettingError as error:
                kind = text[:4]  # "stun" also for stuns:, "turn" also for turns:
                words = f"A URL of server {number} in DUETLINK_ICE_SERVERS cannot be read."
                unread.append(Finding(kind, "failed", words, str(error), _NO_URL))
    if len(urls) > MAX_URLS:
        words = f"{len(urls)} URLs are configured; the first {MAX_URLS} were asked."
        unread.append(Finding(urls[MAX_URLS].kind, "unknown", words, "keep the ones that work", _NO_URL))
    return urls[:MAX_URLS], unread


@dataclass(frozen=True, slots=True)
class _TimeLeft:
    """The rest of the time limit, for all probes."""

    left_s: float
    of_s: float

    async def answer(
        self, name: str, question: Coroutine[Any, Any, Finding], url: ServerUrl | None = None
    ) -> Finding:
        """Wait for the finding of a probe; one with the outcome "unknown" after a timeout or an error."""
        timeout = asyncio.timeout(max(self.left_s, 0.0))
        try:
            async with timeout:
                return await question
        except Exception as error:  # one failing probe must not end the others
            _log.debug("the probe %s failed", name, exc_info=error)
            why = f"could not be examined ({type(error).__name__})"
            if timeout.expired():
                why = f"was not finished within {self.of_s:g} s"
        details = _NO_URL | {"url": url.location, "transport": url.transport} if url else {}
        advice = "run it again, with --timeout for more time"
        return Finding(name, "unknown", f"{url or name} {why}.", advice, details)


def _udp_servers(urls: Sequence[ServerUrl], names: Mapping[str, Resolved]) -> list[Address]:
    """Return the addresses for STUN Binding requests over UDP: all of one family, IPv4 if there are any."""
    found: dict[bool, list[Address]] = {False: [], True: []}
    for url in urls:
        resolved = names[url.host]
        if url.transport == "udp" and not isinstance(resolved, NameUnresolved):
            for address in resolved:
                found[":" in address].append((address, url.port))
    return list(dict.fromkeys(found[False] or found[True]))
