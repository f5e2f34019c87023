"""Members in network namespaces of their own, joined by a router that drops packets by chance.

Packets are real, and so are the drops: nftables decides for each one that crosses the router. Cables have an
MTU of 1500. The members are threads of one process, whose sockets were each opened in another namespace.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import socket
import threading
from types import TracebackType
from typing import Any, Self

from duetlink_gossip.udp import UdpPost
from tests.lab.namespace import Namespace, connect
from tests.learning.test_gossip_udp import pair_secrets

_CLONE_NEWNET = 0x40000000
PORT = 40_000

_RULES = """
table inet loss {{
  counter dropped {{ }}
  chain arrive {{
    type filter hook prerouting priority raw; policy accept;
    {rule}
  }}
}}
"""


class LossyNetwork:
    """Linux and root. Everything in it is gone when the `with` block is left."""

    def __init__(self, size: int) -> None:
        self._everything = contextlib.ExitStack()
        self.core = self._namespace("core")
        self.core.sysctl(ipv4__ip_forward=1)
        self.hosts = []
        for number in range(size):
            host = self._namespace(f"host{number}")
            connect(self.core, f"host{number}", host, "eth0")
            self.core.ip(f"addr add 10.7.{number}.1/24 dev host{number}")
            host.ip(f"addr add 10.7.{number}.2/24 dev eth0", f"route add default via 10.7.{number}.1")
            self.hosts.append(host)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._everything.close()

    def lose(self, share: float) -> None:
        """From now on the router drops so many of all packets, each by chance."""
        rule = (
            f"numgen random mod 100000 < {round(share * 100000)} counter name dropped drop" if share else ""
        )
        self.core.nft("table inet loss {}\ndelete table inet loss\n" + _RULES.format(rule=rule))

    @property
    def dropped(self) -> int:
        """Packets that were dropped since the last call of `lose`."""
        found = json.loads(self.core.configure(["nft", "-j", "list", "counter", "inet", "loss", "dropped"]))
        return int(next(each["counter"]["packets"] for each in found["nftables"] if "counter" in each))

    def address(self, number: int) -> str:
        return f"10.7.{number}.2"

    def posts(self, **arguments: Any) -> list[UdpPost]:
        """One for each host."""
        socks = [self.socket(number, socket.SOCK_DGRAM) for number in range(len(self.hosts))]
        addresses = [[(self.address(number), PORT)] for number in range(len(self.hosts))]
        for number, sock in enumerate(socks):
            sock.bind((self.address(number), PORT))
        shared = pair_secrets(len(socks))
        return [UdpPost(sock, rank, addresses, shared[rank], **arguments) for rank, sock in enumerate(socks)]

    def socket(self, number: int, kind: int) -> socket.socket:
        """A socket of that host. It stays there, whoever uses it."""
        found: list[socket.socket | OSError] = []

        def open_there() -> None:
            # a namespace is entered by one thread, which ends with this
            libc = ctypes.CDLL(None, use_errno=True)
            with open(f"/proc/{self.hosts[number].pid}/ns/net", "rb") as file:
                if libc.setns(file.fileno(), _CLONE_NEWNET):
                    found.append(OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno())))
                else:
                    found.append(socket.socket(socket.AF_INET, kind))

        thread = threading.Thread(target=open_there)
        thread.start()
        thread.join()
        if isinstance(found[0], OSError):
            raise found[0]
        return found[0]

    def _namespace(self, name: str) -> Namespace:
        namespace = Namespace(name)
        self._everything.callback(namespace.close)
        return namespace
