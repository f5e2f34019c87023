"""The class `Settings`: every setting with its meaning, default and environment variable.

`Settings()` has the defaults, `Settings.from_environment()` applies `DUETLINK_*` variables over them, and
`dataclasses.replace(settings, …)` changes single fields. `duetlink settings` prints this table.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duetlink.errors import SettingError
from duetlink.extensions import PATHS as EXTENSION_PATHS
from duetlink.extensions import extensions

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

# duetlink's own paths for arrays, the preferred ones first
PATHS = ("local", "tcp", "punched", "udp", "relay", "channel")


@dataclass(frozen=True, slots=True)
class IceServer:
    """One entry of WebRTC's `iceServers` (W3C WebRTC 1.0 §4.2.4): STUN or TURN, with one or several URLs."""

    urls: tuple[str, ...]
    username: str | None = None
    credential: str | None = dataclasses.field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not self.urls:
            raise SettingError("an ICE server needs at least one URL, e.g. {'urls': 'stun:stun.example.org'}")
        for url in self.urls:
            if url.split(":", 1)[0] not in ("stun", "stuns", "turn", "turns"):
                raise SettingError(f"ICE server URL {url!r} must start with stun:, stuns:, turn: or turns:")

    @classmethod
    def from_json(cls, entry: object) -> IceServer:
        """Read one object of the `iceServers` shape; `urls` is a string or a list of strings."""
        if not isinstance(entry, dict):
            raise SettingError(
                f"an ICE server must be a JSON object with 'urls', got a {type(entry).__name__}"
            )
        if unknown := sorted(set(entry) - {"urls", "username", "credential"}):
            raise SettingError(f"ICE server has unknown keys {unknown}; use urls, username, credential")
        urls = entry.get("urls", ())
        if isinstance(urls, str):
            urls = (urls,)
        if not isinstance(urls, list | tuple) or not all(isinstance(url, str) for url in urls):
            raise SettingError(f"'urls' of an ICE server must be a string or a list of strings, got {urls!r}")
        return cls(tuple(urls), entry.get("username"), entry.get("credential"))


def _setting(default: Any, doc: str, env: str = "") -> Any:
    return dataclasses.field(default=default, metadata={"doc": doc, "env": env})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a session: limits, addresses, waiting times. Sizes in bytes, times in seconds."""

    signaling: str | None = _setting(
        None,
        "ws:// or wss:// address of the signaling server; 'paste' to carry the messages by hand",
        "DUETLINK_SIGNALING",
    )
    ice_servers: tuple[IceServer, ...] = _setting(
        (), "STUN and TURN servers, JSON in the shape of WebRTC's iceServers", "DUETLINK_ICE_SERVERS"
    )
    only: tuple[str, ...] = _setting(PATHS, "paths that may carry arrays, comma-separated", "DUETLINK_ONLY")
    relay: bool = _setting(True, "whether TURN servers may be used at all", "DUETLINK_RELAY")
    map_port: bool = _setting(
        False,
        "whether the router may be asked for a port, by UPnP (`pip install 'duetlink[upnp]'`)",
        "DUETLINK_MAP_PORT",
    )
    listen: str | None = _setting(
        None,
        "IP address at which this side listens; default: all, or loopback alone for a peer that shares it",
        "DUETLINK_LISTEN",
    )
    signaling_port: int | str | None = _setting(
        None,
        "TCP port of the kernel's own signaling server, or a range to take one from: 9000-9010; default: any",
        "DUETLINK_SIGNALING_PORT",
    )
    flight_port: int | str | None = _setting(
        None,
        "TCP port, or range, at which Flight listens for the path tcp, from the start on; default: any",
        "DUETLINK_FLIGHT_PORT",
    )
    ice_probe_timeout_s: float = _setting(
        1.0, "how long STUN and TURN servers have to answer before pairing goes on without them"
    )
    code_lifetime_s: float = _setting(
        3600.0, "how long a session code waits for its peer", "DUETLINK_CODE_LIFETIME_S"
    )
    pairing_timeout_s: float = _setting(30.0, "how long the two sides have to connect once they have met")
    call_timeout_s: float = _setting(30.0, "how long the peer has to answer a control message")
    heartbeat_interval_s: float = _setting(2.0, "time between heartbeats on the control channel")
    heartbeat_timeout_s: float = _setting(10.0, "silence after which the link looks for a new connection")
    reconnect_timeout_s: float = _setting(
        3600.0, "how long the link looks for the peer before it closes", "DUETLINK_RECONNECT_TIMEOUT_S"
    )
    inline_limit_bytes: int = _setting(
        64 * KIB, "values up to this size ride in the control message instead of over a network path"
    )
    prepare_limit_bytes: int = _setting(
        256 * MIB,
        "assets up to this size are placed in shared memory as soon as a peer of this host is connected",
        "DUETLINK_PREPARE_LIMIT_BYTES",
    )
    max_value_bytes: int = _setting(
        64 * GIB, "largest value this side takes when it asked for it", "DUETLINK_MAX_VALUE_BYTES"
    )
    max_received_bytes: int = _setting(
        4 * GIB, "most that the peer's send() may place here, in total", "DUETLINK_MAX_RECEIVED_BYTES"
    )
    allow_pickle: bool = _setting(
        False,
        "whether torch.distributed may unpickle what other ranks send, which runs code of theirs",
        "DUETLINK_ALLOW_PICKLE",
    )
    held_bytes: int = _setting(
        512 * MIB,
        "most memory of received objects that is kept so that equal parts need not be sent again",
        "DUETLINK_HELD_BYTES",
    )
    audit_path: str | None = _setting(
        None,
        "file of the audit log (default: audit.jsonl among the user's data); empty: nothing is recorded",
        "DUETLINK_AUDIT_PATH",
    )
    worker_memory_bytes: int = _setting(
        4 * GIB, "most memory that the peer's operations may take here", "DUETLINK_WORKER_MEMORY_BYTES"
    )
    worker_timeout_s: float = _setting(
        600.0,
        "how long one batch of the peer's operations, or one function, may take",
        "DUETLINK_WORKER_TIMEOUT_S",
    )
    worker_result_bytes: int = _setting(1 * GIB, "largest result that the peer may ask for")
    reuse_bytes: int = _setting(
        1 * GIB,
        "most memory of results of the peer's operations that is kept for later operations; 0: none",
        "DUETLINK_REUSE_BYTES",
    )
    check_on_mocks: bool = _setting(
        True,
        "whether a requested program is run alone on the mocks, and has to give the result shown here",
        "DUETLINK_CHECK_ON_MOCKS",
    )
    mates: str = _setting(
        "on",
        "on: sizes and names are shown only if they are the same for three other objects of the schema; off",
        "DUETLINK_MATES",
    )
    answer_grid_s: float = _setting(
        0.0,
        "answers of policies that need a run leave after 1, 2, 4, … times this time; 0: at once",
        "DUETLINK_ANSWER_GRID_S",
    )
    budget_path: str | None = _setting(
        None,
        "file with the spending of privacy budgets (default: among the user's data)",
        "DUETLINK_BUDGET_PATH",
    )
    state_path: str | None = _setting(
        None,
        "directory of what launch(resume=…) keeps (default: state among the user's data)",
        "DUETLINK_STATE_PATH",
    )
    resume_grants: bool = _setting(
        True,
        "whether grants of a person hold after resume, for a peer with the same name",
        "DUETLINK_RESUME_GRANTS",
    )
    max_assets: int = _setting(10_000, "most assets that the peer may list")
    max_pending_requests: int = _setting(1_000, "most requests of the peer that may wait for an answer")

    def __post_init__(self) -> None:
        if self.signaling not in (None, "paste") and not self.signaling.startswith(("ws://", "wss://")):
            raise SettingError(f"signaling address {self.signaling!r} must start with ws:// or wss://")
        if not set(self.only) <= set(PATHS) or not self.allowed_paths:
            known = (*PATHS, *extensions(EXTENSION_PATHS, frozenset(PATHS)))
            if not set(self.only) <= set(known) or not self.allowed_paths:
                raise SettingError(f"only={self.only!r}, relay={self.relay}: choose from {', '.join(known)}")
        if self.listen is not None and not _is_ip(self.listen):
            raise SettingError(
                f"listen {self.listen!r} is no IP address of this machine, such as '192.168.1.2'"
            )
        if self.mates not in ("on", "off"):
            raise SettingError(f"mates={self.mates!r} is neither 'on' nor 'off'")
        _ = self.signaling_ports, self.flight_ports  # which check them
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name in ("answer_grid_s", "reuse_bytes") and value == 0:
                continue
            if field.name.endswith(("_s", "_bytes")) and not value > 0:
                raise SettingError(f"{field.name} must be positive, got {value!r}")

    @property
    def allowed_paths(self) -> tuple[str, ...]:
        """The paths that may carry arrays, the preferred ones first.

        Paths of other packages come last, in the order of `only`.
        """
        ours = (path for path in PATHS if path in self.only and (self.relay or path != "relay"))
        return (*ours, *dict.fromkeys(path for path in self.only if path not in PATHS))

    @property
    def allowed_ice_servers(self) -> tuple[IceServer, ...]:
        """The STUN servers, and the TURN servers unless `relay` forbids them."""
        if self.relay:
            return self.ice_servers
        stun = (
            dataclasses.replace(server, urls=tuple(url for url in server.urls if url.startswith("stun")))
            for server in self.ice_servers
            if any(url.startswith("stun") for url in server.urls)
        )
        return tuple(stun)

    @property
    def signaling_ports(self) -> range | None:
        """The ports at which the signaling server may listen; None means any free port."""
        return _ports("signaling_port", self.signaling_port)

    @property
    def flight_ports(self) -> range | None:
        """The ports at which Flight may listen for peers; None means any free port."""
        return _ports("flight_port", self.flight_port)

    @property
    def audit_file(self) -> Path | None:
        """The file of the audit log; None if nothing is recorded."""
        if self.audit_path == "":
            return None
        return _user_data() / "audit.jsonl" if self.audit_path is None else Path(self.audit_path).expanduser()

    @property
    def budget_file(self) -> Path:
        """The file with the spending of all privacy budgets."""
        if self.budget_path is None:
            return _user_data() / "privacy.jsonl"
        return Path(self.budget_path).expanduser()

    @property
    def state_directory(self) -> Path:
        """The directory in which each name of `launch(resume=…)` has a directory of its own."""
        return _user_data() / "state" if self.state_path is None else Path(self.state_path).expanduser()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """Return the defaults with the `DUETLINK_*` variables applied; SettingError names a bad variable."""
        environment = os.environ if environment is None else environment
        values: dict[str, Any] = {}
        for field in dataclasses.fields(cls):
            text = environment.get(field.metadata["env"] or "", "").strip()
            if not text and field.name == "audit_path" and field.metadata["env"] in environment:
                values["audit_path"] = ""  # for this variable an empty text means: no audit log
            if text:
                values[field.name] = _parse(field.name, field.metadata["env"], field.default, text)
        return cls(**values)


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _ports(name: str, value: object) -> range | None:
    if value is None:
        return None
    first, dash, last = str(value).partition("-")
    try:
        ports = range(int(first), int(last if dash else first) + 1)
    except ValueError:
        ports = range(0)
    if isinstance(value, bool) or not ports or ports[0] < 1 or ports[-1] > 65535:
        raise SettingError(
            f"{name}={value!r} is no TCP port: give one from 1 to 65535, or a range such as '9000-9010'"
        )
    return ports


def _user_data() -> Path:
    import platformdirs  # imported here, since most uses of the settings need no file

    return Path(platformdirs.user_data_dir("duetlink", appauthor=False))


def _parse(name: str, variable: str, default: object, text: str) -> object:
    try:
        if name == "ice_servers":
            entries = json.loads(text)
            if isinstance(entries, dict):
                entries = [entries]
            return tuple(IceServer.from_json(entry) for entry in entries)
        if isinstance(default, tuple):
            return tuple(part.strip() for part in text.split(","))
        if isinstance(default, bool):
            return {"1": True, "true": True, "0": False, "false": False}[text.lower()]
        if isinstance(default, float):
            return float(text)
        if isinstance(default, int):
            return int(text)
    except (ValueError, TypeError, KeyError) as error:
        shown = "" if name == "ice_servers" else f"={text!r}"  # ice_servers holds credentials
        raise SettingError(f"environment variable {variable}{shown} cannot be read: {error}") from None
    return text
