"""What takes longer than a change should wait for, as `make weekly SUITE=fuzz`; the weekly job runs all."""

from __future__ import annotations

import shlex
import subprocess
import sys
import venv
from pathlib import Path

import click

from benchmarks.__main__ import BENCH, WEEKLY

ENGINES = Path(".engines")  # an environment of its own: these bring other versions of what duetlink uses
MINUTES = "{minutes}"
# what docs/gossip.md has figures of
GOSSIP_FIGURES = (
    "--members 8 --rounds 60 --shards 0 --loss 0,10,20,40 --ways rounds,tcp",
    "--members 8 --rounds 100 --shards 4 --ways rounds",
)

SUITES = {
    # hostile inputs for every decoder, drawn programs and tutorials on pointers through rooms (an hour)
    "fuzz": (
        ("-m", "tests.fuzz"),
        ("-m", "tests.remote.interference", "lists", "0", "1"),
        ("-m", "tests.remote.interference", "rooms", "1000", "9000"),
        ("-m", "pytest", "-n", "0", "tests/remote/weekly_corpus.py"),
        ("-m", "tests.remote.fuzzer", "2000", "1000"),
        ("-m", "pytest", "-n", "auto", "-m", "hypothesis", "--hypothesis-profile=search"),
    ),
    # a duet and a group at work; fails where what they hold rises
    "soak": (("-m", "tests.soak", "run", "--minutes", MINUTES), ("-m", "tests.soak", "rooms")),
    # groups in many networks, killed in every operation, a thousand that come and go (root)
    "groups": (("-m", "tests.groups"),),
    # gossip through a router that drops packets: accuracy and time for each loss (root, an hour)
    "gossip": (
        ("-m", "tests.learning.gossip_lab", "--digits", "--rounds", "100"),
        *(("-m", "tests.learning.gossip_lab", *shlex.split(each), "--digits") for each in GOSSIP_FIGURES),
        ("-m", "pytest", "-n", "0", "tests/learning/weekly_convergence.py", "-s"),
        ("-m", "pytest", "-n", "0", "tests/learning/weekly_lost_members.py"),
        ("-m", "pytest", "-n", "0", "tests/learning/weekly_lossy_links.py", "-s"),
    ),
    # Flower, Spark, Dask and preparations over shared ports, in an environment of their own
    "engines": (
        ("-m", "tests.engines"),
        ("-m", "pytest", "-n", "0", "tests/prep/weekly_columns.py"),
    ),
    # all that documents have figures of (hours; root)
    "benchmarks": tuple(("-m", "benchmarks", *shlex.split(command)) for command in (*BENCH, *WEEKLY)),
    # torch's own distributed tests over duetlink
    "torch": (("-m", "tests.groups.torch_cases"),),
    # a person's day in JupyterLab and Notebook 7, and `duetlink demo --open`, in a browser
    "habits": (("-m", "pytest", "tests/browser/habits.py", "tests/browser/by_hand.py"),),
}


@click.command()
@click.argument("suite", type=click.Choice(sorted(SUITES)))
@click.option("--minutes", default=2, show_default=True, help="How long the soak takes.")
def main(suite: str, minutes: int) -> None:
    """Run all commands of a suite, also where one fails; exit with 1 where one did."""
    if suite == "engines" and not ENGINES.exists():
        venv.create(ENGINES, with_pip=True)
        pip = ENGINES / "bin/pip"
        subprocess.run(
            [pip, "install", "--quiet", "flwr", "pysail", "pyspark-client", "distributed"], check=True
        )
    failed = []
    for command in SUITES[suite]:
        given = [str(minutes) if part == MINUTES else part for part in command]
        print(f"python {' '.join(given)}", flush=True)
        if subprocess.run([sys.executable, *given], check=False).returncode:
            failed.append(given)
    if failed:
        sys.exit("\n".join(f"failed: python {' '.join(given)}" for given in failed))


if __name__ == "__main__":
    main(prog_name="python -m tests.weekly")
