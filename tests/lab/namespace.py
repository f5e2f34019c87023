"""One network namespace, with processes and mounts of its own: a machine, as far as a network can tell.

It has no name and no file. It lives as long as a `cat` that is its first process, which ends when this
interpreter lets go of its standard input, however that comes about; the kernel then kills every process
inside and takes the interfaces away. So nothing can be left behind, and nothing of the machine's own network
is touched.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_PROGRAMS = ("unshare", "nsenter", "setpriv", "ip", "tc", "nft", "ethtool", "sysctl", "tcpdump", "turnserver")


def unsupported() -> str | None:
    """Why there can be no lab on this machine; None if there can."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "the lab needs Linux and root, for network namespaces"
    missing = [program for program in _PROGRAMS if shutil.which(program) is None]
    return f"the lab needs {', '.join(missing)} (tests/system_packages.py)" if missing else None


class Namespace:
    """A machine without a network so far. Close it, or let this interpreter end."""

    def __init__(self, name: str, environment: Mapping[str, str] | None = None) -> None:
        self.name = name
        self._environment = dict(os.environ) | dict(environment or {})
        self._keeper = subprocess.Popen(
            ["unshare", "--net", "--pid", "--mount", "--fork", "--mount-proc", "--kill-child", "cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # a Ctrl-C is ours to answer
        )
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        self._keeper.stdin.write(b".")
        if self._keeper.stdout.read(1) != b".":  # an echo: it is inside
            raise RuntimeError(f"namespace {name} could not be made; unshare ended: {self._keeper.wait()}")
        where = f"/proc/{self.pid}/ns"
        self._enter = ["nsenter", f"--net={where}/net"]
        # the death signal: nsenter stays outside as the parent of what it starts, and is what gets killed
        self._enter_all = [
            *self._enter, f"--pid={where}/pid_for_children", f"--mount={where}/mnt", f"--wdns={Path.cwd()}",
            "setpriv", "--pdeathsig", "KILL", "--",
        ]  # fmt: skip
        # nobody else is there to have the same IPv6 address: no second of waiting for an objection
        self.sysctl(ipv6__conf__default__accept_dad=0)
        self.configure(["ip", "link", "set", "dev", "lo", "up"])

    @property
    def pid(self) -> int:
        """A process outside that stands for this namespace, for `ip link … netns PID`."""
        return self._keeper.pid

    def configure(self, arguments: Sequence[str], text: str | None = None) -> str:
        """Run a program of the system in this network only, and return what it prints."""
        done = subprocess.run(
            [*self._enter, *arguments], input=text, capture_output=True, text=True, timeout=20, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{self.name}: {' '.join(arguments)}: {done.stderr.strip()}\n{text or ''}")
        return done.stdout

    def ip(self, *lines: str, family: int = 0) -> None:
        """Several `ip` commands in one process, of one family where no address tells it."""
        self.configure(["ip", *([f"-{family}"] if family else []), "-batch", "-"], "\n".join(lines) + "\n")

    def nft(self, rules: str) -> None:
        """Apply rules in nft's language."""
        self.configure(["nft", "-f", "-"], rules)

    def sysctl(self, **values: int | str) -> None:
        """Set `net.…` variables; a double underscore stands for the dot."""
        settings = [f"net.{name.replace('__', '.')}={value}" for name, value in values.items()]
        self.configure(["sysctl", "-qw", *settings])

    def popen(self, arguments: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """Start a program inside; killing it kills it."""
        environment = self._environment | options.pop("env", {})
        return subprocess.Popen(
            [*self._enter_all, *arguments], env=environment, start_new_session=True, **options
        )

    def run(self, arguments: Sequence[str], *, timeout_s: float = 30.0) -> str:
        """Run a program inside to its end and return what it prints. Raises CalledProcessError."""
        return subprocess.run(
            [*self._enter_all, *arguments],
            env=self._environment, capture_output=True, text=True, timeout=timeout_s, check=True,
        ).stdout  # fmt: skip

    def close(self) -> None:
        """Kill everything inside and remove it. Safe to call twice."""
        for pipe in (self._keeper.stdin, self._keeper.stdout):
            if pipe is not None:
                pipe.close()
        self._keeper.wait(20)


def connect(one: Namespace, one_name: str, other: Namespace, other_name: str) -> None:
    """A cable between two namespaces, up at both ends, that carries one packet at a time.

    With offloads, tens of packets cross as one and are lost as one, which makes loss look harmless; and a
    checksum left to the hardware is one that nobody fills in.
    """
    one.configure(
        ["ip", "link", "add", one_name, "type", "veth", "peer", "name", other_name, "netns", str(other.pid)]
    )
    for end, name in ((one, one_name), (other, other_name)):
        end.configure(["ethtool", "-K", name, "tso", "off", "gso", "off", "gro", "off", "tx", "off"])
        end.configure(["ip", "link", "set", "dev", name, "up"])
