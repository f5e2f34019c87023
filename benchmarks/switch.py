"""Machines on one switch, each with a line of a given rate each way: network namespaces (Linux and root)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tests.lab.namespace import Namespace

SIGNALING_PORT = 4040


def address(rank: int) -> str:
    return f"10.77.0.{rank + 1}"


@contextlib.contextmanager
def machines(count: int, rate: str) -> Iterator[list[Namespace]]:
    """Make `count` machines; `rate` is one of tc, such as 100mbit. Each has its address at eth0.

    duetlink looks for a signaling server on the first, which whoever needs one starts.
    """
    with contextlib.ExitStack() as stack:
        switch = Namespace("switch")
        stack.callback(switch.close)
        switch.ip("link add bridge0 type bridge", "link set dev bridge0 up")
        made = []
        environment = {
            "GLOO_SOCKET_IFNAME": "eth0",
            "DUETLINK_SIGNALING": f"ws://{address(0)}:{SIGNALING_PORT}",
        }
        for rank in range(count):
            machine = Namespace(f"rank {rank}", environment)
            stack.callback(machine.close)
            switch.ip(f"link add to{rank} type veth peer name eth0 netns {machine.pid}")
            switch.ip(f"link set dev to{rank} master bridge0", f"link set dev to{rank} up")
            machine.ip(f"addr add {address(rank)}/24 dev eth0", "link set dev eth0 up")
            for end, device in ((switch, f"to{rank}"), (machine, "eth0")):
                shape = f"qdisc add dev {device} root tbf rate {rate} burst 256kb latency 100ms"
                end.configure(["tc", *shape.split()])
            made.append(machine)
        yield made
