"""Sums among four hosts whose lines are shaped, as a user calls them, beside gloo.

The hosts are network namespaces (Linux and root). Each has a line with a rate each way: on a switch, or, with
losses and a round trip, in the lab's internet (tests/lab), which carries one packet at a time as a real one
does. Ways are as in `groups`, and a secure sum. The bound is the time in which a line carries 2 (n-1)/n of
the array, as the best algorithm must.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import click

from benchmarks.command import benchmark, rounds
from benchmarks.harness import interleave, ratio, report
from benchmarks.switch import address, machines
from benchmarks.team import Team
from tests.lab.lab import Host, Lab
from tests.lab.namespace import Namespace, unsupported

RATE_MBIT = 100
SWITCH, LOSSY = f"{RATE_MBIT} Mbit/s", f"{RATE_MBIT} Mbit/s, 20 ms, 1 % lost each way"
DELAY_MS, LOSS = 10.0, 0.01  # one way
LINKS = (SWITCH, LOSSY)
QUICK = {"members": 3, "size_bytes": 100_000, "link": (SWITCH,)}


@benchmark
@click.option("--members", type=click.IntRange(3, 9), default=4, show_default=True, help="How many hosts.")
@click.option(
    "--size-bytes", type=click.IntRange(4), default=16_000_000, show_default=True, help="Of an array."
)
@click.option("--link", type=click.Choice(LINKS), multiple=True, help="Which; all by default.")
@rounds(3)
def main(members: int, size_bytes: int, link: tuple[str, ...], rounds: int) -> None:
    if why := unsupported():
        print(f"links: not measured: {why}")
        return
    before = os.getloadavg()
    bound_s = 2 * (members - 1) / members * size_bytes / (RATE_MBIT * 1e6 / 8)
    rows, data = [], {}
    for name in link or LINKS:
        with _hosts(name, members) as (hosts, first), contextlib.ExitStack() as stack:

            def start(rank: int, command: list[str], hosts: Any = hosts, **options: Any) -> Any:
                return hosts[rank].popen(command, **options)

            gloo, torch, ours = (
                stack.enter_context(contextlib.closing(Team(*words, members=members, start=start)))
                for words in (
                    ("benchmarks.torch_member", "gloo", first),
                    ("benchmarks.torch_member", "duetlink", first),
                    ("benchmarks.groups_member",),
                )
            )
            ways = {
                "gloo": partial(gloo.seconds, size_bytes),
                "default": partial(ours.seconds, size_bytes, "default"),
                "torch": partial(torch.seconds, size_bytes),
                "secure=True": partial(ours.seconds, size_bytes, "secure"),
            }
            for way in ways.values():
                way()  # warms up
            samples = interleave(ways, rounds)
        data[name] = {way: sample.times_s for way, sample in samples.items()}
        rows += [
            [
                f"{name}: {way}",
                f"{sample.median_s * 1000:,.0f}",
                f"{bound_s / sample.median_s:.2f}",
                ratio(samples["gloo"], sample),
                f"{sample.median_s / samples['default'].median_s:.2f}",
            ]
            for way, sample in samples.items()
        ]
    load = f"load average {before[0]:.1f}, then {os.getloadavg()[0]:.1f}"
    report(
        "links",
        f"all_reduce of {size_bytes:,} bytes of float32, {members} hosts, {load}",
        ["link: way", "ms", "of the bound", "x gloo", "times the default's time"],
        rows,
        {"members": members, "size_bytes": size_bytes, "bound_s": bound_s, "links": data},
    )


@contextlib.contextmanager
def _hosts(link: str, members: int) -> Iterator[tuple[Sequence[Host | Namespace], str]]:
    """Hosts, and the address of the first."""
    if link == SWITCH:
        with machines(members, f"{RATE_MBIT}mbit") as hosts:
            serve = [sys.executable, "-m", "duetlink", "signal", "--host", address(0)]
            server = hosts[0].popen(serve, stdout=subprocess.PIPE)
            assert server.stdout is not None
            server.stdout.readline()  # it listens
            yield hosts, address(0)
            server.kill()
            server.communicate()
        return
    with Lab() as lab:
        for host in (made := [lab.host("open") for _ in range(members)]):  # a packet crosses two lines
            lab.shape(host, rate_mbit=RATE_MBIT, delay_ms=DELAY_MS / 2, loss=LOSS / 2)
        yield made, made[0].address


if __name__ == "__main__":
    main()
