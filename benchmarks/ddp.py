"""A training step of DDP on one host, as a user writes it, beside gloo; and where its time goes on a line.

A step is a forward and a backward pass of a perceptron. Its communication is the step's time less that of a
step without it (`no_sync`). With `--line RATE`, such as 1gbit, it runs instead on two hosts (network
namespaces, Linux and root) with such a line each, and tells when each bucket of gradients was ready and when
it was summed: what is summed while the backward pass goes on costs nothing.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
from functools import partial
from typing import Any

import click

from benchmarks.command import benchmark, rounds
from benchmarks.harness import Sample, interleave, report
from benchmarks.switch import address, machines
from benchmarks.team import Team
from tests.lab.namespace import unsupported

BACKENDS = ("gloo", "duetlink")
QUICK = {"members": (2,), "size_bytes": 1_000_000, "batch": 8}


@benchmark
@click.option("--members", type=click.IntRange(2), multiple=True, default=(2, 4), show_default=True)
@click.option(
    "--size-bytes", type=click.IntRange(4), default=59_000_000, show_default=True, help="Of weights."
)
@click.option("--batch", type=click.IntRange(1), default=64, show_default=True, help="Rows of a step.")
@click.option("--line", help="The rate of each host's line, as tc writes it.")
@rounds(5)
def main(members: tuple[int, ...], size_bytes: int, batch: int, line: str | None, rounds: int) -> None:
    if line is None:
        _on_one_host(members, size_bytes, batch, rounds)
    elif why := unsupported():
        print(f"ddp: not measured: {why}")
    else:
        _on_lines(size_bytes, batch, line)


def _on_one_host(members: tuple[int, ...], size_bytes: int, batch: int, rounds: int) -> None:
    before = os.getloadavg()
    rows, data = [], {}
    for count in members:
        with contextlib.ExitStack() as stack:
            teams = {
                backend: stack.enter_context(
                    contextlib.closing(
                        Team("benchmarks.ddp_member", backend, "127.0.0.1", str(batch), members=count)
                    )
                )
                for backend in BACKENDS
            }
            ways = {
                f"{backend}: {way}": partial(team.seconds, size_bytes, way)
                for backend, team in teams.items()
                for way in ("alone", "step")
            }
            for way in ways.values():
                way()  # warms up; DDP orders its buckets after the first step
            samples = interleave(ways, rounds)
        data[count] = {name: sample.times_s for name, sample in samples.items()}
        spent = {backend: _communication(samples, backend) for backend in BACKENDS}
        gloo, ours = spent["gloo"], spent["duetlink"]
        rows.append(
            [
                str(count),
                f"{samples['gloo: alone'].median_s * 1000:.0f}",
                *(f"{samples[f'{backend}: step'].median_s * 1000:.0f}" for backend in BACKENDS),
                *(f"{spent[backend].median_s * 1000:.0f} ({spent[backend].spread})" for backend in BACKENDS),
                f"{ours.median_s / gloo.median_s:.2f}",
            ]
        )
    headers = ["processes", "step without communication, ms", "step of gloo, ms", "step of duetlink, ms"]
    headers += ["communication of gloo, ms", "communication of duetlink, ms", "duetlink / gloo"]
    report(
        "ddp",
        f"A step of DDP, {size_bytes:,} bytes of float32, {batch} rows, gloo of torch "
        f"{importlib.metadata.version('torch')}, load average {before[0]:.1f}",
        headers,
        rows,
        {"size_bytes": size_bytes, "batch": batch, "members": data},
    )


def _communication(samples: dict[str, Sample], backend: str) -> Sample:
    pairs = zip(samples[f"{backend}: step"].times_s, samples[f"{backend}: alone"].times_s, strict=True)
    return Sample(tuple(step_s - alone_s for step_s, alone_s in pairs))


def _on_lines(size_bytes: int, batch: int, line: str) -> None:
    rows = []
    data: dict[str, Any] = {}
    with machines(2, line) as hosts:

        def start(rank: int, command: list[str], **options: Any) -> Any:
            return hosts[rank].popen(command, **options)

        for backend in BACKENDS:
            words = ("benchmarks.ddp_member", backend, address(0), str(batch))
            with contextlib.closing(Team(*words, members=2, start=start)) as team:
                for _ in range(2):
                    team.seconds(size_bytes, "timeline")  # warms up
                alone_s = team.seconds(size_bytes, "alone")
                told = team.told(size_bytes, "timeline")
            data[backend] = {"alone_s": alone_s, **told}
            rows += [
                [
                    backend,
                    f"{bucket['bytes']:,}",
                    f"{bucket['ready_s'] * 1000:.0f}",
                    f"{bucket['summed_s'] * 1000:.0f}",
                    f"{told['step_s'] * 1000:.0f}",
                    f"{alone_s * 1000:.0f}",
                ]
                for bucket in told["buckets"]
            ]
    report(
        "ddp_line",
        f"One step of DDP on two hosts, lines of {line}, {size_bytes:,} bytes of float32, {batch} rows",
        ["backend", "bucket, bytes", "ready, ms", "summed, ms", "step, ms", "without communication, ms"],
        rows,
        {"size_bytes": size_bytes, "batch": batch, "line": line, "backends": data},
    )


if __name__ == "__main__":
    main()
