"""The lab: an internet, its servers, and hosts behind gateways; made and removed by a `with` statement."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.lab.gateway import Gateway, make_gateway, plug
from tests.lab.line import Line
from tests.lab.namespace import Namespace
from tests.lab.servers import HOSTS, Servers

_PROBE = [sys.executable, "-S", str(Path(__file__).with_name("probe.py"))]

CAPTURED_BYTES_PER_PACKET = 128


class Host:
    """A machine of a person: a namespace with one network card, its own home directory, its own processes.

    The directory keeps hosts apart that share a disk: notebooks of one machine find each other's signaling
    server in Jupyter's runtime directory. A process table of its own makes the rung `local` fail here as it
    does between two machines, so that the whole ladder can be left on.
    """

    kind: str
    line: Line
    gateway: Gateway | None

    def __init__(self, home: Path, environment: dict[str, str]) -> None:
        self.home = home
        home.mkdir()
        self.namespace = Namespace(
            home.name,
            environment
            | {
                "GLOO_SOCKET_IFNAME": "eth0",
                "HOME": str(home),
                "XDG_RUNTIME_DIR": str(home),
                "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
                "TMPDIR": str(home),
            },
        )
        names = home / "hosts"
        names.write_text(HOSTS)
        self.namespace.run(["mount", "--bind", str(names), "/etc/hosts"])

    def popen(self, arguments: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """Start a program on this host."""
        return self.namespace.popen(arguments, **options)

    def run(self, arguments: Sequence[str], *, timeout_s: float = 30.0) -> str:
        """Run a program on this host to its end; returns what it prints."""
        return self.namespace.run(arguments, timeout_s=timeout_s)

    def probe(self, *words: object) -> str:
        """One word or line from `probe.py`, run here."""
        return self.run([*_PROBE, *map(str, words)]).strip()

    def begin_probe(self, *words: object) -> Callable[[], str]:
        """Start a listening `probe.py` here; returns when it listens, with what waits for its answer."""
        process = self.popen([*_PROBE, *map(str, words)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        if process.stdout.readline() != "up\n":
            raise RuntimeError(f"probe {words} ended")
        return lambda: process.communicate(timeout=20)[0].strip()

    @property
    def address(self) -> str:
        """Its address in its own network."""
        family = 6 if self.kind == "ipv6" else 4
        shown = self.namespace.configure(
            ["ip", f"-{family}", "-brief", "addr", "show", "dev", "eth0", "scope", "global"]
        )
        return shown.split()[2].split("/")[0]

    def plug(self, kind: str, line: Line, gateway: Gateway | None) -> None:
        self.kind, self.line, self.gateway = kind, line, gateway
        six = kind == "ipv6"
        self.namespace.sysctl(ipv6__conf__all__disable_ipv6=0 if six else 1)
        plug(gateway or line, self.namespace, "eth0", six=six)

    def unplug(self) -> None:
        self.namespace.ip("link del eth0")


class Lab:
    """Everything in it is gone when the `with` block is left."""

    def __init__(self, *, capture: bool = False) -> None:
        self._everything = contextlib.ExitStack()
        self._lines = 0
        self.hosts: list[Host] = []
        try:
            self.directory = Path(
                self._everything.enter_context(tempfile.TemporaryDirectory(prefix="duetlink-lab-"))
            )
            self.core = Namespace("internet")
            self._everything.callback(self.core.close)
            self.core.sysctl(ipv4__ip_forward=1, ipv6__conf__all__forwarding=1, ipv4__conf__all__rp_filter=0)
            # What is sent to nobody gets lost, as out there. Without a route it would come back as an error,
            # which makes coturn drop the whole allocation of whoever asks for a private address.
            self.core.ip("link add nowhere type ifb", "link set dev nowhere up")
            for family in (4, 6):
                self.core.ip("route add default dev nowhere", family=family)
            if capture:
                self._capture()
            self.servers = Servers(self.core, self.directory)
            self._everything.callback(self.servers.close)
        except BaseException:
            self._everything.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove it. Safe to call twice."""
        self._everything.close()

    def gateway(self, kind: str, *, hairpin: bool = False, isolated: bool = False) -> Gateway:
        """A gateway on a line of its own, for several hosts."""
        gateway = make_gateway(kind, self._line(), hairpin=hairpin, isolated=isolated)
        if gateway is None:
            raise ValueError(f"network kind {kind!r} has no gateway")
        self._everything.callback(gateway.close)
        return gateway

    def host(self, kind: str | Gateway = "open") -> Host:
        """A host of a network kind, with its own gateway and line, or behind a gateway that is there."""
        host = Host(self.directory / f"host{len(self.hosts)}", self.servers.environment)
        self._everything.callback(host.namespace.close)
        self._plug(host, kind)
        self.hosts.append(host)
        return host

    def move(self, host: Host, kind: str | Gateway) -> None:
        """Carry the host to another network: a new address, and what is sent to the old one is lost."""
        host.unplug()
        self._plug(host, kind)

    def shape(
        self,
        host: Host,
        *,
        rate_mbit: float | None = None,
        delay_ms: float = 0.0,
        loss: float = 0.0,
        buffer_bytes: int | None = None,
    ) -> None:
        """Set the host's line: rate, one-way delay and share of packets lost, each way; default: none of it.

        The buffer in front of the rate is 20 ms long unless it is given.
        """
        host.line.shape(rate_mbit, delay_ms, loss, buffer_bytes)

    def cut(self, host: Host) -> None:
        """From now on the host's line swallows everything."""
        host.line.cut()

    def mend(self, host: Host) -> None:
        host.line.mend()

    def keep_capture(self, directory: Path) -> list[Path]:
        """Copy the last packets seen in the core to `directory`: at most two files, as tcpdump writes."""
        return [Path(shutil.copy(file, directory)) for file in sorted(self.directory.glob("packets*"))]

    def _plug(self, host: Host, kind: str | Gateway) -> None:
        if isinstance(kind, Gateway):
            host.plug(kind.kind, kind.line, kind)
            return
        line = self._line()
        gateway = make_gateway(kind, line)
        if gateway is not None:
            self._everything.callback(gateway.close)
        host.plug(kind, line, gateway)

    def _line(self) -> Line:
        self._lines += 1
        line = Line(self.core, self._lines)
        self._everything.callback(line.close)
        return line

    def _capture(self) -> None:
        """A ring of two files of 8 MB, headers only."""
        snapped = ["-i", "any", "-s", str(CAPTURED_BYTES_PER_PACKET)]
        ring = ["-C", "8", "-W", "2", "-U", "-Z", "root", "-w", str(self.directory / "packets")]
        process = self.core.popen(
            ["tcpdump", *snapped, *ring], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

        def end() -> None:
            process.kill()
            process.wait(10)

        self._everything.callback(end)
