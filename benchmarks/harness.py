"""What every benchmark shares: interleaved runs, medians with their spread, a table, a JSON file."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import importlib.metadata
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.command import command_line, is_quick

RESULTS = Path(__file__).parent / "results"
MIB, GIB = 1 << 20, 1 << 30
PACKAGES = ("aiortc", "aioice", "numpy", "pyarrow", "protobuf", "cryptography", "xxhash", "grpcio", "torch")


@dataclass(frozen=True, slots=True)
class Sample:
    """Times of one way of doing something, in seconds, in the order in which they were taken."""

    times_s: tuple[float, ...]

    @property
    def median_s(self) -> float:
        return statistics.median(self.times_s)

    @property
    def spread(self) -> str:
        return f"{min(self.times_s) * 1000:.4g} to {max(self.times_s) * 1000:.4g}"


def interleave(ways: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, Sample]:
    """Run each way once per round, in turn (A B C A B C …); a way returns the seconds it took."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            times[name].append(way())
    return {name: Sample(tuple(taken)) for name, taken in times.items()}


def ratio(base: Sample, sample: Sample) -> str:
    """How many times as fast as `base`, by medians; then the least and most that single runs would give."""
    least = min(base.times_s) / max(sample.times_s)
    most = max(base.times_s) / min(sample.times_s)
    return f"{base.median_s / sample.median_s:.3g}x ({least:.3g} to {most:.3g})"


def timed(work: Callable[[], Any]) -> float:
    start_s = time.perf_counter()
    work()
    return time.perf_counter() - start_s


@dataclass(frozen=True, slots=True)
class Result:
    """The table of one benchmark, as results/NAME.json keeps it; all cells are texts."""

    name: str
    command: str
    date: str  # as 2026-11-27
    machine: str
    title: str
    headers: list[str]
    rows: list[list[str]]

    @classmethod
    def load(cls, name: str) -> Result:
        record = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
        return cls(*(record[field.name] for field in dataclasses.fields(cls)))

    @property
    def source(self) -> str:
        return f"`{self.command}`, {self.date}, {self.machine}."


def report(name: str, title: str, headers: list[str], rows: list[list[str]], data: object) -> None:
    """Print a table, and write benchmarks/results/NAME.json, from which documents are written.

    With `--quick` nothing is written.
    """
    table = Table(title=title, title_justify="left")
    for header in headers:
        table.add_column(header, justify="left" if header == headers[0] else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    Console(width=170).print(table)
    if is_quick():
        return
    RESULTS.mkdir(exist_ok=True)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    machine = f"{os.cpu_count()} cores of {_processor()}"
    result = Result(name, command_line(), today, machine, " ".join(title.split()), headers, rows)
    system = {"system": platform.platform(), "python": platform.python_version()}
    record = {**dataclasses.asdict(result), **system, "versions": dict(_versions()), "data": data}
    (RESULTS / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _versions() -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            yield package, importlib.metadata.version(package)


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor()
