"""`make bench` and the weekly job run every command that a document has figures of, and the commands work."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from benchmarks.__main__ import BENCH, WEEKLY, main
from benchmarks.command import is_quick
from tests.weekly import SUITES

ROOT = Path(__file__).resolve().parent.parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND = re.compile(r"`python -m (benchmarks|tests\.learning\.gossip_lab)( [^`]+)`")
# what is done in seconds; the others need a browser, root, Java, or a gibibyte
QUICK = (
    *("start", "busy", "groups", "seed_table", "zero_copy", "policies", "prep"),
    *("part_control", "part_audit", "part_dedup", "part_engine", "part_iteration", "part_sums"),
    "part_secure_sums",
)


def options(words: list[str]) -> list[frozenset[str]]:
    """Each command of a line, its words in no order: `panel part_page` are two."""
    commands: list[list[str]] = []
    for word in words:
        if word in main.list_commands(click.Context(main)) or not commands:
            commands.append([])
        commands[-1].append(word)
    return [frozenset(command) for command in commands]


def run_by_the_weekly_job() -> set[frozenset[str]]:
    lines = [shlex.split(command) for command in (*BENCH, *WEEKLY)]
    lines += [list(command[2:]) for command in SUITES["gossip"] if command[1] == "tests.learning.gossip_lab"]
    return {command for words in lines for command in options(words)}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_commands_that_a_document_names_are_run_each_week(path: Path) -> None:
    text = " ".join(path.read_text("utf-8").split())  # a command may be broken into two lines
    named = {command for _, words in COMMAND.findall(text) for command in options(shlex.split(words))}
    assert named - run_by_the_weekly_job() == set(), "add them to benchmarks/__main__.py"


def test_the_weekly_job_runs_what_make_bench_runs_and_the_rest() -> None:
    weekly = [shlex.join(command[2:]) for command in SUITES["benchmarks"]]
    assert weekly == [*BENCH, *WEEKLY]
    assert "make weekly SUITE=benchmarks" in (ROOT / ".github/workflows/weekly.yml").read_text("utf-8")
    assert "\t$(BIN)/python -m benchmarks\n" in (ROOT / "Makefile").read_text("utf-8")


@pytest.mark.slow  # some import torch, others a browser
def test_the_options_of_every_command_are_those_that_it_has() -> None:
    program = f"""
import click
from benchmarks.__main__ import main
parent = click.Context(main)
for name, *words in {[shlex.split(command) for command in (*BENCH, *WEEKLY)]}:
    main.get_command(parent, name).make_context(name, words, parent)
    print(name)
"""
    # in a process of its own, since the libraries that some of them import leave sockets open
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == len(BENCH) + len(WEEKLY)


@pytest.mark.slow  # seconds each
@pytest.mark.parametrize("name", QUICK)
def test_a_benchmark_does_its_work_at_the_smallest_sizes(name: str) -> None:
    command = [sys.executable, "-m", "benchmarks", "--quick", name]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=280, check=False)
    assert (done.returncode, done.stderr[-2000:] if done.returncode else "") == (0, "")
    assert "┏" in done.stdout


def test_nothing_is_quick_by_itself() -> None:
    assert not is_quick()
