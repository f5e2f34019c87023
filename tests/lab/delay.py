"""Holds every packet of a line for a while: `python delay.py TUN DELAY_MS`, in the line's namespace.

Not every kernel has netem. The line routes what it forwards into a TUN device; this program reads it, waits
and writes it back, and the kernel routes it on. The delay is the same for all, so a queue in order of
arrival does, both ways in one. A wake-up serves all packets that fall due within SLACK_S. A TCP flow of 100
Mbit/s costs a fifth of a core; the end is at some 600 Mbit/s, so that faster lines must do without a delay.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import sys
import time
from collections import deque

_TUNSETIFF = 0x400454CA
_IFF_TUN = 0x0001
_IFF_NO_PI = 0x1000

_SLACK_S = 0.0002
_READ_AT_ONCE = 64
_MAX_PACKET_BYTES = 65536


def main() -> None:
    name, delay_s = sys.argv[1], float(sys.argv[2]) / 1000
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
    print("up", flush=True)
    forward(tun, delay_s)


def forward(tun: int, delay_s: float) -> None:
    held: deque[tuple[float, bytes]] = deque()
    read, write, now = os.read, os.write, time.monotonic
    while True:
        wait_s = max(held[0][0] - now(), 0.0) if held else None
        readable, _, _ = select.select([tun], [], [], wait_s)
        if readable:
            due_s = now() + delay_s
            try:
                for _ in range(_READ_AT_ONCE):
                    held.append((due_s, read(tun, _MAX_PACKET_BYTES)))
            except BlockingIOError:
                pass
        soon_s = now() + _SLACK_S
        while held and held[0][0] <= soon_s:
            write(tun, held.popleft()[1])


if __name__ == "__main__":
    main()
