"""The whole examination: every probe at once, within one bound."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from duetlink.errors import SettingError
from duetlink.net.stun.server_url import ServerUrl
from duetlink.settings import Settings
from duetlink.tools.doctor.addresses import addresses_finding, own_addresses
from duetlink.tools.doctor.finding import Finding
from duetlink.tools.doctor.host import host_findings
from duetlink.tools.doctor.link import PathOutcome, link_findings
from duetlink.tools.doctor.message import Address
from duetlink.tools.doctor.mtu import probe_mtu
from duetlink.tools.doctor.nat_probe import probe_nat
from duetlink.tools.doctor.report import Report
from duetlink.tools.doctor.resolver import Lookup, NameUnresolved, Resolver
from duetlink.tools.doctor.signaling_probe import probe_signaling
from duetlink.tools.doctor.stun_probe import probe_stun
from duetlink.tools.doctor.tcp_nat_probe import probe_tcp_nat
from duetlink.tools.doctor.turn_probe import probe_turn
from duetlink.tools.doctor.udp import udp_finding

TIMEOUT_S = 10.0
MAX_URLS = 32  # that are probed; more of them are left out, and said to be

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
    resolver = Resolver(lookup, timeout_s / 4)
    tls = tls or ssl.create_default_context()
    own = own_addresses()
    by_udp = asyncio.ensure_future(_servers(urls, ("udp",), resolver))
    by_tcp = asyncio.ensure_future(_servers(urls, ("udp", "tcp"), resolver))
    hosts = [one.host for one in own]
    probes = [
        _Probe("nat", probe_nat(by_udp, hosts)),
        _Probe("nat tcp", probe_tcp_nat(by_tcp, hosts)),
        _Probe("mtu", probe_mtu(by_udp)),
    ]
    for kind, probe in (("stun", probe_stun), ("turn", probe_turn)):
        probes += [_Probe(kind, probe(url, resolver, tls), url) for url in urls if url.kind == kind]
    probes.append(_Probe("signaling", probe_signaling(settings, resolver)))
    try:
        found = await _run(probes, started_s + timeout_s - time.monotonic(), timeout_s)
    finally:
        by_udp.cancel()
        by_tcp.cancel()
        await resolver.close()
    nat_and_mtu, asked, signaling = found[:3], unread + found[3:-1], found[-1]
    findings = (
        *link_findings(paths, used_path),
        addresses_finding(own),
        udp_finding(asked),
        *nat_and_mtu,
        *asked,
        signaling,
        *host_findings(),
    )
    return Report(findings, time.monotonic() - started_s, settings.allowed_paths)


def read_urls(settings: Settings) -> tuple[list[ServerUrl], list[Finding]]:
    """The URLs to probe, and findings for those that cannot be read."""
    urls: list[ServerUrl] = []
    unread: list[Finding] = []
    for number, server in enumerate(settings.ice_servers, 1):
        for text in server.urls:
            kind = text[:4]  # "stun" also for stuns:, "turn" also for turns:
            try:
                url = ServerUrl.parse(text, server)
            except SettingError as error:
                words = f"A URL of server {number} in DUETLINK_ICE_SERVERS cannot be read."
                unread.append(Finding(kind, "failed", words, str(error), {"url": "", "transport": ""}))
            else:
                urls.append(url)
    if len(urls) > MAX_URLS:
        words = f"{len(urls)} URLs are configured; the first {MAX_URLS} were asked."
        unread.append(
            Finding(
                urls[MAX_URLS].kind, "unknown", words, "keep the ones that work", {"url": "", "transport": ""}
            )
        )
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
    return Finding(
        probe.name,
        "unknown",
        f"{probe.url or probe.name} {why}.",
        "run it again, with --timeout for more time",
        {"url": probe.url.location, "transport": probe.url.transport} if probe.url else {},
    )


async def _servers(urls: Sequence[ServerUrl], transports: Sequence[str], resolver: Resolver) -> list[Address]:
    """Where Binding requests can be sent: addresses of one family, IPv4 if there are such."""
    usable = [url for url in urls if url.transport in transports]
    resolved = await asyncio.gather(*(resolver.addresses(url.host) for url in usable), return_exceptions=True)
    found: dict[int, list[Address]] = {4: [], 6: []}
    for url, addresses in zip(usable, resolved, strict=True):
        if isinstance(addresses, NameUnresolved):  # which its own finding says
            continue
        if isinstance(addresses, BaseException):
            raise addresses
        for address in addresses:
            found[6 if ":" in address else 4].append((address, url.port))
    return list(dict.fromkeys(found[4] or found[6]))
