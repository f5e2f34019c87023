"""The command line of the benchmarks: what it takes, refuses and hands on. No benchmark is run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from benchmarks import harness
from benchmarks.__main__ import BENCH, WEEKLY, main
from benchmarks.command import Benchmarks

NAMES = list(dict.fromkeys(command.split()[0] for command in (*BENCH, *WEEKLY)))

FAKE = '''
"""{title}

More about it.
"""
import os
import click
from benchmarks.command import benchmark, parts, rounds
from benchmarks.harness import report

QUICK = {{"size_mib": 1}}

@benchmark
@click.option("--size-mib", type=click.IntRange(1), default=64, show_default=True, help="MiB to move.")
@click.option("--case", "cases", type=click.Choice(("dry", "wet")), multiple=True, help="May be repeated.")
@parts("--model", "models", ("small", "large"))
@rounds(5)
def main(size_mib, cases, models, rounds):
    print("{name}", size_mib, cases, rounds, os.environ["XDG_DATA_HOME"])
    report("{name}", "A title", ["what"], [["figure"]], [1.5])
'''


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Benchmarks:
    """Two benchmarks, `quick` and `slow`, that measure nothing; `slow` is run by name alone."""
    package = tmp_path / "fake_benchmarks"
    package.mkdir()
    for name, title in (("quick", "A quick one."), ("slow", "A slow one:\nhours.")):
        (package / f"{name}.py").write_text(FAKE.format(name=name, title=title), encoding="utf-8")
        monkeypatch.delitem(sys.modules, f"fake_benchmarks.{name}", raising=False)
    (package / "__init__.py").touch()
    monkeypatch.delitem(sys.modules, "fake_benchmarks", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", "the user's own")
    monkeypatch.setattr(harness, "RESULTS", tmp_path / "results")
    return Benchmarks("fake_benchmarks", ("quick",), ("slow --rounds 9",))


def run(command: Benchmarks, *words: str) -> Result:
    return CliRunner().invoke(command, words, prog_name="python -m benchmarks")


def ran(result: Result) -> list[list[str]]:
    """Of each fake that has run: its name, size, cases and rounds."""
    assert result.exit_code == 0, result.output
    lines = (line for line in result.stdout.splitlines() if line.startswith(("quick", "slow")))
    return [line.rsplit(maxsplit=1)[:1] for line in lines]


def test_without_a_name_the_tables_run(fakes: Benchmarks) -> None:
    assert ran(run(fakes)) == [["quick 64 () 5"]]


def test_several_run_in_order_each_with_its_own_options(fakes: Benchmarks) -> None:
    words = ("slow", "--size-mib", "3", "--case", "wet", "--case", "dry", "quick", "--rounds", "2")
    assert ran(run(fakes, *words)) == [["slow 3 ('wet', 'dry') 5"], ["quick 64 () 2"]]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("quicker",), "there is no benchmark 'quicker'; there are quick, slow."),
        # what `python -m benchmarks cuts 10 300 1000` once took in silence
        (
            ("slow", "10", "300"),
            "there is no benchmark '10'; there are quick, slow. A benchmark's parameters are",
        ),
        (("slow", "--cuts", "3"), "No such option '--cuts'"),
        (("--rounds", "3"), "No such option '--rounds'"),
        (("slow", "--size-mib", "much"), "Invalid value for '--size-mib': 'much' is not a valid integer"),
        (("slow", "--size-mib", "0"), "Invalid value for '--size-mib': 0 is not in the range x>=1"),
        (("slow", "--case", "damp"), "Invalid value for '--case': 'damp' is not one of 'dry', 'wet'"),
    ],
)
def test_what_is_unknown_is_refused_before_anything_runs(
    fakes: Benchmarks, words: tuple[str, ...], says: str
) -> None:
    result = run(fakes, "quick", *words) if words[0] != "--rounds" else run(fakes, *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr


def test_help_lists_every_benchmark_without_importing_any(fakes: Benchmarks) -> None:
    result = run(fakes, "--help")
    assert result.exit_code == 0
    assert result.output.startswith("Usage: python -m benchmarks [OPTIONS] [NAME [OPTIONS]]…\n")
    assert [line.split() for line in result.output.splitlines() if line.startswith("  ")][-2:] == [
        ["quick", "A", "quick", "one."],
        ["slow", "A", "slow", "one:", "hours."],
    ]
    assert "fake_benchmarks.quick" not in sys.modules


def test_help_of_one_is_its_docstring_and_its_options_with_defaults(fakes: Benchmarks) -> None:
    result = run(fakes, "slow", "--help")
    assert result.exit_code == 0
    text = " ".join(result.output.split())
    assert text.startswith("Usage: python -m benchmarks slow [OPTIONS] A slow one: hours. More about it.")
    assert "--size-mib INTEGER RANGE MiB to move. [default: 64; x>=1]" in text
    assert "--rounds INTEGER RANGE How often each way is measured. [default: 5; x>=1]" in text


def test_nothing_is_written_among_the_users_data(fakes: Benchmarks) -> None:
    result = run(fakes, "quick")
    directory = Path(result.stdout.splitlines()[0].split()[-1])
    assert directory.is_absolute()
    assert not directory.exists()
    assert os.environ["XDG_DATA_HOME"] == "the user's own"


def test_the_record_holds_the_command_that_made_it(fakes: Benchmarks) -> None:
    ran(run(fakes, "slow", "--case", "wet", "quick"))
    record = json.loads((harness.RESULTS / "slow.json").read_text(encoding="utf-8"))
    assert record["command"] == "python -m benchmarks slow --case wet"
    assert record["data"] == [1.5]
    assert set(record["versions"]) >= {"numpy", "pyarrow", "protobuf"}
    record = json.loads((harness.RESULTS / "quick.json").read_text(encoding="utf-8"))
    assert record["command"] == "python -m benchmarks quick"


def test_parts_that_have_tables_of_their_own_are_made_by_the_whole_command(fakes: Benchmarks) -> None:
    ran(run(fakes, "slow", "--model", "large", "--size-mib", "3"))
    record = json.loads((harness.RESULTS / "slow.json").read_text(encoding="utf-8"))
    assert record["command"] == "python -m benchmarks slow --size-mib 3"
    text = " ".join(run(fakes, "slow", "--help").output.split())
    assert "--model [small|large] May be repeated. [default: small, large]" in text


def test_quick_takes_the_smallest_sizes_and_writes_nothing(fakes: Benchmarks) -> None:
    words = ("--quick", "slow", "quick", "--size-mib", "3")
    assert ran(run(fakes, *words)) == [["slow 1 () 1"], ["quick 3 () 1"]]
    assert ran(run(fakes, "--quick")) == [["quick 1 () 1"]]
    assert not harness.RESULTS.exists()


def test_every_benchmark_has_a_name_and_a_title() -> None:
    directory = Path(harness.__file__).parent
    files = [path for path in directory.glob("*.py") if "\n@benchmark\n" in path.read_text(encoding="utf-8")]
    assert sorted(path.stem for path in files) == sorted(NAMES)
    assert run(main, "--help").exit_code == 0


@pytest.mark.slow  # some import torch, others a browser
def test_every_benchmark_has_help_and_refuses_what_it_does_not_know() -> None:
    program = f"""
from click.testing import CliRunner
from benchmarks.__main__ import main
for name in {NAMES}:
    shown = CliRunner().invoke(main, [name, "--help"])
    refused = CliRunner().invoke(main, [name, "--colour", "red"])
    print(name, shown.exit_code, refused.exit_code, "No such option '--colour'" in refused.stderr)
"""
    # in a process of its own, since the libraries that some of them import leave sockets open
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"{name} 0 2 True" for name in NAMES]
