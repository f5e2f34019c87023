"""`python -m tests.soak run`, `chaos` and `rooms`: see the help of each."""

from __future__ import annotations

import dataclasses
import time

import click

from benchmarks.harness import report
from duetlink.base.quantities import size_text
from duetlink.settings import PATHS
from tests.soak import rooms
from tests.soak.chaos import chaos
from tests.soak.chart import HEADERS, chart
from tests.soak.soak import soak

MINUTES = click.option("--minutes", type=float, default=2.0, show_default=True, help="At least.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """What rises in hours, and what goes wrong where members of a group stop, die and join."""


@main.command()
@MINUTES
@click.option("--only", default=",".join(PATHS), show_default=True, help="Paths of the duet.")
@click.option(
    "--reshares/--no-reshares", default=True, help="Share each object again in each cycle, or once."
)
@click.option("--group/--no-group", default=True, help="A group beside the duet, or the duet alone.")
def run(minutes: float, only: str, reshares: bool, group: bool) -> None:
    """A duet and a group work, and nothing that their processes hold may rise from cycle to cycle."""
    samples = soak(minutes, reshares=reshares, group=group, only=tuple(only.split(",")))
    done = ", ".join(f"{number} {what}" for what, number in samples.done.items())
    title = f"held at the end of each cycle: {done}"
    report("soak", title, HEADERS, chart(samples.series), samples.to_json())
    if samples.leaks:
        raise click.ClickException("\n".join(str(series) for series in samples.leaks))


@main.command("chaos")
@MINUTES
@click.option("--seed", type=int, default=lambda: int(time.time()), help="The same seed, the same fate.")
@click.option("--members", type=click.IntRange(4, 16), default=6, show_default=True, help="At most at once.")
@click.option("--kill-opener", is_flag=True, help="Whoever opened the group may go as well.")
def let_loose(minutes: float, seed: int, members: int, kill_opener: bool) -> None:
    """Members of a group are stopped for less than its limits, killed, leave and join.

    No sum may be wrong, and no healthy member put out.
    """
    print(f"seed {seed}", flush=True)
    found = chaos(minutes, seed=seed, most=members, kill_opener=kill_opener)
    rows = [[what, str(number)] for what, number in found.done.items()]
    data = {"seed": seed, "done": found.done, "faults": found.faults}
    report("chaos", f"a group of up to {members}", ["what", "how often"], rows, data)
    if found.faults:
        raise click.ClickException("\n".join(found.faults))


@main.command("rooms")
@click.option("--number", type=click.IntRange(200), default=1_000, show_default=True)
def one_after_the_other(number: int) -> None:
    """Rooms for programs, each a process: no memory, descriptor or process may stay behind."""
    held, took_s = rooms.run(number)
    rows = [
        [
            f"{at.rooms:,}",
            str(at.descriptors),
            str(at.processes),
            *(size_text(size) for size in at.resident_bytes),
        ]
        for at in held
    ]
    middle_ms = 1000 * sorted(took_s)[len(took_s) // 2]
    headers = [
        "rooms",
        "descriptors: this process, zygote",
        "processes",
        "memory of this process",
        "of the zygote",
    ]
    data = {"ready_s": took_s, "held": [dataclasses.asdict(at) for at in held]}
    report("rooms", f"rooms one after the other, ready in {middle_ms:.0f} ms (median)", headers, rows, data)
    if found := rooms.rises(held):
        raise click.ClickException("\n".join(found))


if __name__ == "__main__":
    main(prog_name="python -m tests.soak")
