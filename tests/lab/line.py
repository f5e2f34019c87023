"""The access line between a gateway and the internet: rate, buffer, delay and loss, and whether it is cut.

A packet that enters at either end meets the loss first, then the delay, then the shaper with its buffer. It
is a router of its own, since what a host drops in its own output comes back to the sender as an error.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.lab.namespace import Namespace, connect

_DELAY_PROGRAM = str(Path(__file__).with_name("delay.py"))

# an access network's own routers; never seen beyond them
_TRANSIT = "10.255"

_RULES = """
table inet line {{
  chain arrive {{
    type filter hook prerouting priority raw; policy accept;
    {cut}
    {loss}
  }}
}}
"""


class Line:
    """Line number `number` of the core. To its customer it is the router 5.5.NUMBER.1/24."""

    def __init__(self, core: Namespace, number: int) -> None:
        self.number = number
        self.namespace = Namespace(f"line{number}")
        self._delay: subprocess.Popen[bytes] | None = None
        self._loss, self._cut, self._shaped = 0.0, False, False
        connect(core, f"line{number}", self.namespace, "core")
        self.namespace.sysctl(ipv4__ip_forward=1, ipv6__conf__all__forwarding=1, ipv4__conf__all__rp_filter=0)
        core_side, line_side = f"{_TRANSIT}.{number}.1", f"{_TRANSIT}.{number}.2"
        core.ip(
            f"addr add {core_side}/30 dev line{number}",
            f"addr add fd00:{number}::1/64 dev line{number}",
            f"route add {self.address(0)}/24 via {line_side}",
            f"route add {self.address6('')}/48 via fd00:{number}::2",
        )
        self.namespace.ip(
            f"addr add {line_side}/30 dev core",
            f"addr add fd00:{number}::2/64 dev core",
            f"route add default via {core_side}",
            f"route add default via fd00:{number}::1",
        )

    def address(self, host: int) -> str:
        """An IPv4 address of this line's network; host 1 is the line's own."""
        return f"5.5.{self.number}.{host}"

    def address6(self, host: str) -> str:
        """An IPv6 address of this line's network, 2a00:5500:NUMBER::/48."""
        return f"2a00:5500:{self.number}::{host}"

    def plug(self, customer: Namespace, interface: str) -> None:
        """Connect a gateway or host; its addresses and routes are its own business."""
        connect(self.namespace, "customer", customer, interface)
        self.namespace.ip(
            f"addr add {self.address(1)}/24 dev customer",
            f"addr add {self.address6('1')}/64 dev customer",
            # what lies behind the customer's gateway, where that does not translate
            f"route add {self.address6('')}/48 via {self.address6('2')}",
        )

    def shape(self, rate_mbit: float | None, delay_ms: float, loss: float, buffer_bytes: int | None) -> None:
        """Set all of it, both ways alike; None and 0 switch off."""
        for end in ("core", "customer"):
            if self._shaped:
                self.namespace.configure(["tc", "qdisc", "del", "dev", end, "root"])
            if rate_mbit is not None:
                rate = _token_bucket(rate_mbit, buffer_bytes)
                self.namespace.configure(["tc", "qdisc", "add", "dev", end, "root", *rate])
        self._shaped = rate_mbit is not None
        self._loss = loss
        self._filter()
        self._hold(delay_ms)

    def cut(self) -> None:
        """From now on nothing passes, silently."""
        self._cut = True
        self._filter()

    def mend(self) -> None:
        self._cut = False
        self._filter()

    def close(self) -> None:
        self.namespace.close()
        if self._delay is not None:
            self._end_delay()

    def _filter(self) -> None:
        lost = (
            f'iifname {{ "core", "customer" }} numgen random mod 100000 < {round(self._loss * 100000)} drop'
        )
        rules = _RULES.format(
            loss=lost if self._loss else "", cut='iifname { "core", "customer" } drop' if self._cut else ""
        )
        # destroyed and made anew in one transaction
        self.namespace.nft("table inet line {}\ndelete table inet line\n" + rules)

    def _hold(self, delay_ms: float) -> None:
        line = self.namespace
        if self._delay is not None:
            self._end_delay()  # its device goes with it, and its routes with that
            for family in (4, 6):
                line.ip("rule del table 100", "rule del table 100", family=family)
        if not delay_ms:
            return
        self._delay = line.popen(
            [sys.executable, "-S", _DELAY_PROGRAM, "delay", str(delay_ms)], stdout=subprocess.PIPE
        )
        assert self._delay.stdout is not None
        if self._delay.stdout.readline() != b"up\n":
            raise RuntimeError(f"the delay of line {self.number} ended: {self._delay.wait()}")
        line.ip("link set delay up mtu 1500 txqueuelen 20000")
        rules = [f"rule add iif {end} table 100" for end in ("core", "customer")]
        for family in (4, 6):
            line.ip("route add default dev delay table 100", *rules, family=family)

    def _end_delay(self) -> None:
        assert self._delay is not None
        assert self._delay.stdout is not None
        self._delay.kill()
        self._delay.wait(10)
        self._delay.stdout.close()
        self._delay = None


def _token_bucket(rate_mbit: float, buffer_bytes: int | None) -> list[str]:
    """tc's words for a rate, Ethernet headers included, and a buffer: 20 ms unless another is asked for."""
    bytes_per_ms = int(rate_mbit * 1e6 / 8 / 1000)
    burst_bytes = max(16384, bytes_per_ms)  # what one tick of a timer may let through
    limit_bytes = burst_bytes + (buffer_bytes or max(65536, 20 * bytes_per_ms))
    return [
        "tbf",
        "rate",
        f"{rate_mbit * 1000:.0f}kbit",
        "burst",
        str(burst_bytes),
        "limit",
        str(limit_bytes),
    ]
