"""Local steps beside averaging after each step: accuracy, bytes on the wire, and what a pause costs.

Four members, threads of one process in a network namespace of its own (Linux and root), whose loopback
interface counts what they send to each other: TLS, TCP and IP headers, heartbeats and all. They train
a perceptron with one hidden layer, each on a quarter of the rows: Fashion-MNIST where Debian's package
dataset-fashion-mnist is, else the digits. All ways take as many steps of the same batches; accuracy is on all
rows of the test set, over `--seeds` seeds.

Then one of the members pauses once for `--pause` seconds, and the others go on to their twentieth round, with
a grace window of `--grace` seconds. There a step is a wait of 5 ms, so that a member that pauses does not
lend its core to the others.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from typing import Any

import click

from benchmarks.command import benchmark, rounds
from benchmarks.harness import Sample, report
from tests.lab.namespace import Namespace, unsupported

_MODULE = [sys.executable, "-m", "benchmarks.local_steps_member"]

QUICK = {"steps": 100, "seeds": 1, "pause": 0.5, "grace": 0.1}


@benchmark
@click.option("--steps", type=click.IntRange(100), default=1000, show_default=True, help="Of each member.")
@click.option("--seeds", type=click.IntRange(1), default=2, show_default=True, help="Trainings of each way.")
@click.option("--pause", type=click.FloatRange(0.5), default=10.0, show_default=True, help="In seconds.")
@click.option("--grace", type=click.FloatRange(0.1), default=2.0, show_default=True, help="In seconds.")
@rounds(3)
def main(steps: int, seeds: int, pause: float, grace: float, rounds: int) -> None:
    if why := unsupported():
        raise click.ClickException(why)
    before = os.getloadavg()
    found = _measured([steps, pause, grace, rounds, seeds])
    nobody, one = Sample(tuple(found["times_s"]["nobody"])), Sample(tuple(found["times_s"]["one"]))
    cost_s = one.median_s - nobody.median_s
    load = f"load average {before[0]:.1f}, then {os.getloadavg()[0]:.1f}"
    report(
        "local_steps",
        f"{found['task']}, {found['parameters']:,} parameters, 4 members, {steps} steps each, {load};\n"
        f"one pauses {pause:g} s, grace {grace:g} s: the others' 20 rounds take {one.median_s:.2f} s "
        f"({one.spread} ms), without a pause {nobody.median_s:.2f} s ({nobody.spread} ms); "
        f"it costs {cost_s:.2f} s",
        ["way", "accuracy %", "points", "bytes on the wire", "fewer", "seconds"],
        [_row(name, each, next(iter(found["ways"].values()))) for name, each in found["ways"].items()],
        found | {"steps": steps, "pause_s": pause, "grace_s": grace, "load_before": before},
    )


def _row(name: str, runs: list[dict[str, Any]], dense: list[dict[str, Any]]) -> list[str]:
    def mean(which: list[dict[str, Any]], what: str) -> float:
        return statistics.fmean(each[what] for each in which)

    # of each seed by itself: equal seeds have equal batches
    points = [100 * (a["accuracy"] - b["accuracy"]) for a, b in zip(runs, dense, strict=True)]
    return [
        name,
        f"{100 * mean(runs, 'accuracy'):.2f}",
        f"{statistics.fmean(points):+.2f} ({min(points):+.2f} to {max(points):+.2f})",
        f"{mean(runs, 'sent_bytes'):,.0f}",
        f"{mean(dense, 'sent_bytes') / mean(runs, 'sent_bytes'):.4g}x",
        f"{mean(runs, 'took_s'):.1f}",
    ]


def _measured(arguments: list[float]) -> Any:
    place = Namespace("members")
    try:
        # groups are found by an address of the machine, which a namespace has none of
        place.ip("link add here0 type veth peer name here1", "addr add 10.77.1.1/24 dev here0")
        place.ip("link set dev here0 up", "link set dev here1 up")
        process = place.popen([*_MODULE, *map(str, arguments)], stdout=subprocess.PIPE, text=True)
        told, _ = process.communicate()
        if process.returncode:
            raise click.ClickException(f"the members' process ended with {process.returncode}")
        return json.loads(told.strip().splitlines()[-1])
    finally:
        place.close()


if __name__ == "__main__":
    main()
