"""One iteration of a training among four processes: how long it takes by each way to sum the gradients.

A network like VGG (three blocks of convolutions, three large layers) learns
scikit-learn's digits, of 32 by 32 pixels here. An iteration is: gradients of the member's own batch, their
mean over all members, a step of SGD. The dense ring and gloo send whole gradients. `union` and `auto` send
what is sparse: of each member's gradient the largest items (5 %); the others are remembered and added to the
next gradient, as in the literature on top-k. `agreed` chooses rows of the sum itself and remembers the rest
alike. Each way trains a model of its own, on the same batches; ways take turns, and each round begins with
another one. Nothing is sent before the gradient is whole, so the time is that of the work and that of the
sum, which is told too.

Before the first round the sum by `union` and `auto` is compared bit by bit with the dense ring's of the same
sparse gradients. On links of 1 Gbit/s and 100 Mbit/s each way between namespaces: root, on Linux.
"""

from __future__ import annotations

import os
from typing import Any

import click

from benchmarks.command import benchmark, rounds
from benchmarks.harness import Sample, ratio, report
from benchmarks.part_sums import LINKS, places, told

QUICK = {"members": 2, "width": 8, "batch": 2, "link": ("loopback",)}


@benchmark
@click.option(
    "--members", type=click.IntRange(2, 9), default=4, show_default=True, help="How many processes."
)
@click.option(
    "--link", type=click.Choice(list(LINKS)), multiple=True, help="Which links; the two shaped ones."
)
@click.option(
    "--density",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.05,
    show_default=True,
    help="How much of its gradient a member sends.",
)
@click.option(
    "--width", type=click.IntRange(2), default=2048, show_default=True, help="Of the first large layer."
)
@click.option(
    "--batch", type=click.IntRange(1), default=32, show_default=True, help="How many images of a member."
)
@rounds(4)
def main(members: int, link: tuple[str, ...], density: float, width: int, batch: int, rounds: int) -> None:
    before = os.getloadavg()
    arguments = [str(each) for each in (rounds, density, width, batch)]
    rows: list[list[str]] = []
    data: dict[str, Any] = {}
    for name in link or ("1 Gbit/s", "100 Mbit/s"):
        with places(members, LINKS[name]) as started:
            data[name] = told("benchmarks.part_iteration_member", started, arguments)
        rows += _rows(name, data[name]["ways"])
    parameters = next(iter(data.values()))["parameters"]
    what = f"{parameters:,} parameters, batch {batch}, {members} processes, {density:.0%} sent"
    load = f"load average {before[0]:.1f}, then {os.getloadavg()[0]:.1f}"
    report(
        "part_iteration",
        f"an iteration: {what}, {load}",
        ["way", "ms", "of dense ring", "of gloo", "ms of the sum", "bytes sent", "union", "loss"],
        rows,
        {
            "members": members,
            "density": density,
            "width": width,
            "batch": batch,
            "load_before": before,
            "links": data,
        },
    )


def _rows(link: str, ways: dict[str, dict[str, Any]]) -> list[list[str]]:
    ring, gloo = (Sample(tuple(ways[name]["times_s"])) for name in ("dense ring", "gloo"))
    rows = []
    for name, each in ways.items():
        sample = Sample(tuple(each["times_s"]))
        rows.append(
            [
                f"{link}: {name} ({each['way']})" if each["way"] else f"{link}: {name}",
                f"{sample.median_s * 1000:,.0f}",
                ratio(ring, sample),
                ratio(gloo, sample),
                f"{Sample(tuple(each['sums_s'])).median_s * 1000:,.0f}",
                f"{each['sent_bytes']:,}" if each["sent_bytes"] else "",
                f"{each['density']:.1%}" if each["density"] is not None else "",
                f"{each['losses'][0]:.3f} to {each['losses'][-1]:.3f}",
            ]
        )
    return rows


if __name__ == "__main__":
    main()
