"""The whole examination: every probe at once, within one bound."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from duetlink.errors import SettingError
from duetlink.net.stun.address import Address
from duetlink.net.stun.server_url import ServerUrl
from duetlink.settings import Settings
from duetlink.tools.doctor.addresses import addresses_finding, own_addresses
from duetlink.tools.doctor.finding import Finding
from duetlink.tools.doctor.link import PathOutcome, link_findings
from duetlink.tools.doctor.names import Lookup, NameUnresolved, Resolved, resolve
from duetlink.tools.doctor.nat_probe import probe_nat
from duetlink.tools.doctor.report import Report
from duetlink.tools.doctor.servers import probe_server, udp_finding
from duetlink.tools.doctor.signaling_probe import probe_signaling

TIMEOUT_S = 10.0
MAX_URLS = 32  # that are probed; more of them are left out, and said to be

_NO_URL = {"url": "", "transport": "", "reachable": False}
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Probe:
    """One question, and what to call it where it is not answered in time."""

    name: str
    run: Coroutine[Any, Any, Finding]
    url: ServerUrl | None = None


async def examine(
    settings: Settings,
    *,
    paths: Sequence[PathOutcome] = (),
    used_path: str | None = None,
    timeout_s: float = TIMEOUT_S,
    lookup: Lookup | None = None,
    tls: ssl.SSLContext | None = None,
) -> Report:
    """Ask every configured server; look at this machine, and at the `paths` of a link, of which one is used.

    Takes at most `timeout_s`; what is not finished by then is reported as unknown. Nothing is left running,
    except a system's resolver that does not answer, on a daemon thread. `lookup` and `tls` replace the
    system's.
    """
    started_s = time.monotonic()
    urls, unread = read_urls(settings)
    # names take a part of the time only, so that one that is not resolved does not cost the rest
    names = await resolve((url.host for url in urls), timeout_s / 4, lookup)
    tls = tls or ssl.create_default_context()
    own = own_addresses()
    probes = [
        _Probe("nat", probe_nat(_udp_servers(urls, names), [one.host for one in own])),
        _Probe("signaling", probe_signaling(settings, timeout_s / 4, lookup)),
        *(_Probe(url.kind, probe_server(url, names[url.host], tls), url) for url in urls),
    ]
    nat, signaling, *asked = await _run(probes, started_s + timeout_s - time.monotonic(), timeout_s)
    asked = sorted([*unread, *asked], key=lambda one: one.name)  # stun before turn
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
    """The URLs to probe, and findings for those that cannot be read."""
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


async def _run(probes: Sequence[_Probe], left_s: float, timeout_s: float) -> list[Finding]:
    tasks = [asyncio.ensure_future(probe.run) for probe in probes]
    try:
        await asyncio.wait(tasks, timeout=max(left_s, 0.0))
    finally:
        late = {task for task in tasks if not task.done()}
        for task in late:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return [
        _unfinished(probe, f"was not finished within {timeout_s:g} s")
        if task in late
        else _result(probe, task)
        for probe, task in zip(probes, tasks, strict=True)
    ]


def _result(probe: _Probe, task: asyncio.Task[Finding]) -> Finding:
    error = task.exception()
    if error is None:
        return task.result()
    # a doctor that falls ill over one question still answers the others
    _log.debug("the probe %s failed", probe.name, exc_info=error)
    return _unfinished(probe, f"could not be examined ({type(error).__name__})")


def _unfinished(probe: _Probe, why: str) -> Finding:
    url = probe.url
    details = _NO_URL | {"url": url.location, "transport": url.transport} if url else {}
    words = f"{url or probe.name} {why}."
    return Finding(probe.name, "unknown", words, "run it again, with --timeout for more time", details)


def _udp_servers(urls: Sequence[ServerUrl], names: Mapping[str, Resolved]) -> list[Address]:
    """Where Binding requests can be sent: addresses of one family, IPv4 if there are such."""
    found: dict[bool, list[Address]] = {False: [], True: []}
    for url in urls:
        resolved = names[url.host]
        if url.transport == "udp" and not isinstance(resolved, NameUnresolved):
            for address in resolved:
                found[":" in address].append((address, url.port))
    return list(dict.fromkeys(found[False] or found[True]))
