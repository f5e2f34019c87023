"""Sums of sparse arrays among four processes: our codecs beside the dense ring, gloo, and an all-gather.

Each way sums the same float32 arrays in the same processes, in turn. On loopback, and, with root on Linux,
between namespaces whose links carry 1 Gbit/s and 100 Mbit/s each way. The all-gather sends int32 places and
float32 values, which each member adds. `lhc` is the scheme of arXiv 2402.07529 (`baselines/lhc.py`). A time
is rank 0's, from a barrier on; bytes are what it has sent. Dense arrays go by the dense ring twice: how far
these two are apart is how far one can trust a difference. Every result is compared bit by bit with our dense
ring's: other orders of additions (gloo, the all-gather) give other bits, and `lhc` gives other numbers.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import click

from benchmarks.command import benchmark, rounds
from benchmarks.harness import Sample, ratio, report
from benchmarks.members import free_port, of_all
from benchmarks.switch import address, machines
from tests.lab.namespace import Namespace, unsupported

CASES = ("5 % shared", "1 % shared", "5 % half shared", "5 % independent", "dense", "counts")
LINKS: dict[str, str | None] = {"loopback": None, "1 Gbit/s": "1gbit", "100 Mbit/s": "100mbit"}

QUICK = {"members": 2, "items": 1000, "link": ("loopback",)}


@benchmark
@click.option(
    "--members", type=click.IntRange(2, 9), default=4, show_default=True, help="How many processes."
)
@click.option("--items", type=click.IntRange(1000), default=4_000_000, show_default=True, help="Of an array.")
@click.option("--link", type=click.Choice(list(LINKS)), multiple=True, help="Which links; all by default.")
@click.option("--case", type=click.Choice(CASES), multiple=True, help="Which arrays; all by default.")
@rounds(5)
def main(members: int, items: int, link: tuple[str, ...], case: tuple[str, ...], rounds: int) -> None:
    before = os.getloadavg()
    rows: list[list[str]] = []
    data: dict[str, Any] = {}
    for name in link or LINKS:
        with places(members, LINKS[name]) as started:
            arguments = [str(rounds), str(items), json.dumps(case or CASES)]
            found = told("benchmarks.part_sums_member", started, arguments)
        data[name] = {each: found[each] for each in case or CASES}
        for each in case or CASES:
            rows += _rows(name, each, found[each])
    load = f"load average {before[0]:.1f}, then {os.getloadavg()[0]:.1f}"
    title = f"sums of float32[{items:,}], {members} processes, {load}"
    _report_beside_ring("part_sums_speed", f"{title}: times as fast as the dense ring", data, _speed)
    _report_beside_ring("part_sums_bytes", f"{title}: times fewer bytes than the dense ring", data, _fewer)
    report(
        "part_sums",
        title,
        ["link", "case", "way", "ms", "of dense ring", "bytes sent", "of dense ring", "items of other bits"],
        rows,
        {"items": items, "members": members, "load_before": before, "links": data},
    )


def _report_beside_ring(
    name: str, title: str, links: dict[str, Any], figure: Callable[[dict[str, Any], dict[str, Any]], str]
) -> None:
    """A row for each link and case, a column for each way, and in it a figure of that way and of the ring."""
    cases = {(link, case): found for link, each in links.items() for case, found in each.items()}
    ways = list(dict.fromkeys(way for found in cases.values() for way in found if way != "dense ring"))
    rows = [
        [
            f"{link}, {case}",
            *(figure(found["dense ring"], found[way]) if way in found else "" for way in ways),
        ]
        for (link, case), found in cases.items()
    ]
    report(name, title, ["link, case", *ways], rows, None)


def _speed(ring: dict[str, Any], way: dict[str, Any]) -> str:
    return ratio(Sample(tuple(ring["times_s"])), Sample(tuple(way["times_s"])))


def _fewer(ring: dict[str, Any], way: dict[str, Any]) -> str:
    return f"{ring['sent_bytes'] / way['sent_bytes']:.3g}x" if way["sent_bytes"] else ""


def _rows(link: str, case: str, ways: dict[str, dict[str, Any]]) -> list[list[str]]:
    dense = Sample(tuple(ways["dense ring"]["times_s"]))
    rows = []
    for name, each in ways.items():
        sample = Sample(tuple(each["times_s"]))
        sent = each["sent_bytes"]
        rows.append(
            [
                link,
                case,
                f"{name} ({each['way']})" if each.get("way") else name,
                f"{sample.median_s * 1000:,.1f}",
                ratio(dense, sample),
                f"{sent:,}" if sent else "",
                f"{ways['dense ring']['sent_bytes'] / sent:.3g}x" if sent else "",
                f"{each['wrong']:.2%}" if each["wrong"] else "none",
            ]
        )
    return rows


def told(module: str, started: list[Any], arguments: list[str]) -> Any:
    """What rank 0 of those members tells in the end."""
    command = [sys.executable, "-m", module]
    return of_all([start([*command, *head, *arguments], rank) for rank, (start, head) in enumerate(started)])


@contextlib.contextmanager
def places(members: int, rate: str | None) -> Iterator[list[Any]]:
    """How to start each member, and the arguments that say where it is."""

    def here(command: list[str], rank: int) -> subprocess.Popen[Any]:
        return subprocess.Popen(command, stdout=subprocess.PIPE if rank == 0 else None)

    if rate is None:
        where = ["127.0.0.1", "127.0.0.1", str(free_port())]
        yield [(here, [str(rank), str(members), *where]) for rank in range(members)]
        return
    if why := unsupported():
        raise click.ClickException(f"{why}; --link loopback works without")
    with machines(members, rate) as made:
        started = []
        for rank, machine in enumerate(made):

            def there(command: list[str], rank: int, machine: Namespace = machine) -> subprocess.Popen[Any]:
                output = subprocess.PIPE if rank == 0 else None
                process: subprocess.Popen[Any] = machine.popen(command, stdout=output)
                return process

            started.append((there, [str(rank), str(members), address(rank), address(0), "29555"]))
        yield started


if __name__ == "__main__":
    main()
