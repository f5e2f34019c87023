"""Finds the signaling server to use: that of the settings, or a running one of the same user on this machine.

An embedded server announces itself by a file in Jupyter's runtime directory, which only its user can read.
Files whose server is gone are deleted by the next reader.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import os
import socket
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Annotated, Self
from urllib.parse import urlsplit

import aiohttp
import msgspec
import platformdirs

from duetlink.base.wire import json_
from duetlink.errors import LocalProtocolError, MalformedCode, SettingError
from duetlink.net.signaling.code import check_server
from duetlink.net.signaling.frames import HEALTH
from duetlink.settings import Settings

PROBE_TIMEOUT_S = 1.0
_PATTERN = "duetlink-signaling-*.json"
_MAX_FILE_BYTES = 4096

_log = logging.getLogger(__name__)


class _AnnouncedServer(msgspec.Struct, frozen=True):
    """The content of an announcement."""

    url: str
    in_code: str | None
    pid: Annotated[int, msgspec.Meta(gt=0, lt=2**31)]
    host: str


@dataclass(frozen=True, slots=True)
class SignalingServer:
    """Its address for this side (`url`), and the address that a code carries for the peer (`in_code`)."""

    url: str
    in_code: str | None = None

    @classmethod
    def at(cls, address: str) -> SignalingServer:
        """Parse `host:port` or a ws:// or wss:// URL. Raises SettingError."""
        try:
            check_server(address)
        except MalformedCode as error:
            raise SettingError(f"signaling address {address!r}: {error}") from None
        url = address if "://" in address else f"ws://{address}"
        parts = urlsplit(url)
        plain = parts.scheme == "ws" and parts.port is not None and parts.path in ("", "/")
        return cls(url, None if _is_loopback(parts.hostname or "") else parts.netloc if plain else url)


def configured(settings: Settings) -> SignalingServer | None:
    """Return the server that the settings name; None if the owner's kernel should run its own.

    An owner does not use the server of another kernel: that one ends with its own duets, and a code that
    names it would then be useless. "paste" names no server; the caller handles it, and here it raises
    LocalProtocolError.
    """
    if settings.signaling == "paste":
        raise LocalProtocolError("'paste' means pairing by hand; there is no server to look for")
    return SignalingServer.at(settings.signaling) if settings.signaling else None


async def live_servers(directory: Path | None = None) -> list[SignalingServer]:
    """Return the announced servers of this machine that answer, oldest first.

    Deletes announcements of dead ones.
    """
    announced = _read_announcements(directory or runtime_directory())
    states = await asyncio.gather(*(_probe(entry) for _, entry in announced))
    for (path, _), state in zip(announced, states, strict=True):
        if state == "dead":
            _delete(path)
    live = [entry for (_, entry), state in zip(announced, states, strict=True) if state == "live"]
    return [SignalingServer(entry.url, entry.in_code) for entry in live]


def announce(server: SignalingServer, directory: Path | None = None) -> Announcement:
    """Write this process's announcement, readable by this user only. Raises OSError."""
    directory = directory or runtime_directory()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / f"duetlink-signaling-{os.getpid()}.json"
    entry = _AnnouncedServer(server.url, server.in_code, os.getpid(), socket.gethostname())
    content = msgspec.json.encode(entry).decode()
    written = path.with_suffix(".new")
    with contextlib.suppress(FileNotFoundError):
        written.unlink()
    descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(content)
    written.replace(path)  # atomic: readers see the whole file or none
    return Announcement(path, content)


class Announcement:
    """The file of one announcement. Call `remove`, or leave the `with` block, when the server stops."""

    def __init__(self, path: Path, content: str) -> None:
        self.path = path
        self._content = content
        self._pid = os.getpid()

    def remove(self) -> None:
        """Delete the file if it is still this one. Safe to call twice; does nothing in a forked child."""
        with contextlib.suppress(OSError):
            if os.getpid() == self._pid and self.path.read_text(encoding="utf-8") == self._content:
                self.path.unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


def runtime_directory(environment: Mapping[str, str] | None = None) -> Path:
    """Return Jupyter's runtime directory of this user. It need not exist."""
    environment = os.environ if environment is None else environment
    if directory := environment.get("JUPYTER_RUNTIME_DIR"):
        return Path(directory)
    try:
        from jupyter_core.paths import jupyter_runtime_dir
    except ImportError:
        # Jupyter's choice; `user_runtime_dir` is another directory, and warns without XDG_RUNTIME_DIR
        return Path(platformdirs.user_data_dir("jupyter", appauthor=False), "runtime")
    return Path(jupyter_runtime_dir())


def _read_announcements(directory: Path) -> list[tuple[Path, _AnnouncedServer]]:
    found = []
    for path in directory.glob(_PATTERN):
        with contextlib.suppress(OSError):
            entry = _read_announcement(path)
            if entry is not None:
                found.append((path.stat().st_mtime_ns, path, entry))
    # oldest first, so that all processes of the machine try them in the same order
    return [(path, entry) for _, path, entry in sorted(found, key=lambda item: item[:2])]


def _read_announcement(path: Path) -> _AnnouncedServer | None:
    """Return the announcement; None if it is not one of this user on this machine. Such files are kept."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_FILE_BYTES:
            return None
        if sys.platform != "win32" and (status.st_uid != os.getuid() or status.st_mode & 0o022):
            _log.warning("%s is not this user's alone and is ignored", path)
            return None
        data = os.read(descriptor, _MAX_FILE_BYTES)
    finally:
        os.close(descriptor)
    try:
        entry = json_.read(data, _AnnouncedServer)
        check_server(entry.url)
        if entry.in_code is not None:
            check_server(entry.in_code)
    except ValueError:
        return None
    # a home directory may be shared between machines
    return entry if entry.host == socket.gethostname() else None


async def _probe(entry: _AnnouncedServer) -> str:
    """Return "live", "dead", or "unclear". An unclear server is neither used nor deleted."""
    if not _process_exists(entry.pid):
        return "dead"
    parts = urlsplit(entry.url)
    health = parts._replace(scheme="https" if parts.scheme == "wss" else "http", path="/").geturl()
    timeout = aiohttp.ClientTimeout(total=PROBE_TIMEOUT_S)
    try:
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(health) as response:
            return "live" if await response.content.read(len(HEALTH)) == HEALTH.encode() else "unclear"
    except aiohttp.ClientConnectorError as error:
        return "dead" if isinstance(error.os_error, ConnectionRefusedError) else "unclear"
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return "unclear"


def _process_exists(pid: int) -> bool:
    if sys.platform == "win32":
        return True  # on Windows, os.kill(pid, 0) would end the process
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _delete(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
