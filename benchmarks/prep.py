"""From a table to a tensor: a row loop, Polars and Spark by hand, and our preparation on each engine.

"ours" is the call without an engine, which is by Polars for files of this size.

A synthetic census, 12 columns, 5 % of the items missing, from Parquet and from CSV, to one float32 tensor:
rows with a missing item are left out, two columns become one-hot, seven are scaled. Every way must give the
same numbers. The row loop is timed on a part of the rows, and its time is scaled up. Spark is warm: the
session is there, and every way has run once before.
"""

from __future__ import annotations

import csv
import os
import resource
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import polars as pl
import pyarrow.parquet as pq
import torch

from benchmarks.census import COLUMNS, census
from benchmarks.command import benchmark, rounds
from benchmarks.harness import Sample, interleave, ratio, report, timed
from duetlink.prep import Prep

BOUNDS = {
    "age": (0, 99),
    "education": (0, 15),
    "hours": (0, 99),
    "children": (0, 10),
    "weeks": (0, 52),
    "wage": (0, 20_000),
    "rooms": (1, 11),
}
ONE_HOT = {"marital": [0, 1, 2, 3, 4], "work": [0, 1, 2, 3]}
LEFT_OUT = ("occupation",)
QUICK = {"rows": 2000, "spark": False}
PART = 20  # the row loop does so much less


def spec(source: str) -> Prep:
    """All of it; a column of CSV is text until it is cast."""
    prep = Prep()
    if source == "csv":
        prep = prep.missing("NA")
    prep = prep.drop_missing()
    if source == "csv":
        prep = prep.cast(dict.fromkeys(COLUMNS, "int64"))
    prep = prep.select(*(name for name in COLUMNS if name not in LEFT_OUT))
    for column, categories in ONE_HOT.items():
        prep = prep.one_hot(column, list(categories))
    for column, bounds in BOUNDS.items():
        prep = prep.scale(column, bounds)
    return prep


def _tensor(prep: Prep, path: str, engine: Any) -> torch.Tensor:
    return prep.run(path, engine).tensor()


def row_loop(path: str) -> torch.Tensor:
    """As the first of these scripts were: a line at a time."""
    rows = []
    with open(path, newline="") as file:
        for line in csv.DictReader(file):
            if "NA" in line.values():
                continue
            row: list[float] = []
            for name in COLUMNS:
                item = int(line[name]) if name not in LEFT_OUT else 0
                if name in ONE_HOT:
                    row += [float(item == category) for category in ONE_HOT[name]]
                elif name in BOUNDS:
                    low, high = BOUNDS[name]
                    row.append((min(max(item, low), high) - low) / (high - low))
                elif name not in LEFT_OUT:
                    row.append(item)
            rows.append(np.array(row, dtype=np.float32))
    return torch.from_numpy(np.stack(rows))


def _columns(column: Callable[[str], Any], clip: Callable[[Any, int, int], Any]) -> list[Any]:
    """By hand, in the expressions of Polars or of Spark."""
    made = []
    for name in COLUMNS:
        if name in ONE_HOT:
            made += [(column(name) == category).alias(f"{name}={category}") for category in ONE_HOT[name]]
        elif name in BOUNDS:
            low, high = BOUNDS[name]
            made.append(((clip(column(name), low, high) - low) / float(high - low)).alias(name))
        elif name not in LEFT_OUT:
            made.append(column(name))
    return made


def polars_by_hand(source: str, path: str) -> torch.Tensor:
    if source == "csv":
        lazy = pl.scan_csv(path, schema=dict.fromkeys(COLUMNS, pl.Int64), null_values=["NA"])
    else:
        lazy = pl.scan_parquet(path)
    made = _columns(pl.col, lambda column, low, high: column.clip(low, high))
    lazy = lazy.drop_nulls().select([one.cast(pl.Float32) for one in made])
    return torch.from_numpy(lazy.collect().to_numpy(order="c", writable=True))


def spark_by_hand(session: Any, source: str, path: str) -> torch.Tensor:
    from pyspark.sql import functions as f

    if source == "csv":
        schema = ", ".join(f"{name} LONG" for name in COLUMNS)
        frame = session.read.csv(path, header=True, schema=schema, nullValue="NA")
    else:
        frame = session.read.parquet(path)
    made = _columns(f.col, lambda column, low, high: f.greatest(f.least(column, f.lit(high)), f.lit(low)))
    found = frame.dropna().select([one.cast("float") for one in made]).toPandas()
    return torch.from_numpy(np.ascontiguousarray(found.to_numpy(np.float32)))


def session() -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "4g").config("spark.driver.maxResultSize", "2g")
    found = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    found.sparkContext.setLogLevel("OFF")
    return found


@benchmark
@click.option("--rows", type=click.IntRange(1000), default=1_200_000, show_default=True, help="Of a census.")
@click.option("--spark/--no-spark", default=True, show_default=True, help="PySpark needs a Java.")
@click.option(
    "--stream",
    type=click.IntRange(0),
    default=0,
    help="Instead: one engine, so many million rows in batches.",
)
@click.option(
    "--engine",
    type=click.Choice(("pyarrow", "polars", "duckdb")),
    default="duckdb",
    show_default=True,
    help="For --stream.",
)
@rounds(5)
def main(rows: int, spark: bool, stream: int, engine: str, rounds: int) -> None:
    if stream:
        _stream(stream, engine)
        return
    before = os.getloadavg()
    running = session() if spark else None
    with tempfile.TemporaryDirectory() as directory:
        table = census(rows)
        paths = {"parquet": f"{directory}/census.parquet", "csv": f"{directory}/census.csv"}
        pq.write_table(table, paths["parquet"])
        _write_csv(table, Path(paths["csv"]))
        part = f"{directory}/part.csv"
        _write_csv(table.slice(0, rows // PART), Path(part))
        ways: dict[str, Callable[[], torch.Tensor]] = {}
        for source, path in paths.items():
            ways[f"{source}: Polars by hand"] = partial(polars_by_hand, source, path)
            ours = spec(source)
            ways[f"{source}: ours"] = partial(_tensor, ours, path, None)
            for engine in ("pyarrow", "duckdb"):
                ways[f"{source}: ours, {engine}"] = partial(_tensor, ours, path, engine)
            if running is not None:
                ways[f"{source}: Spark by hand"] = partial(spark_by_hand, running, source, path)
                ways[f"{source}: ours, Spark"] = partial(_tensor, ours, path, running)
        expected = _sorted(polars_by_hand("parquet", paths["parquet"]))
        for name, way in ways.items():  # and warm
            if not np.allclose(_sorted(way()), expected, rtol=1e-6, atol=0):
                raise RuntimeError(f"{name} gives other numbers")
        looped = row_loop(part).numpy()
        if not np.allclose(looped, expected[: len(looped)], rtol=1e-6, atol=0):
            raise RuntimeError("the row loop gives other numbers")
        taken: dict[str, Callable[[], float]] = {name: partial(timed, way) for name, way in ways.items()}
        taken["csv: row loop"] = lambda: PART * timed(lambda: row_loop(part))
        samples = interleave(taken, rounds)
    _report(samples, rows, before)


def _stream(millions: int, engine: str) -> None:
    """A file that is read batch by batch, and how much memory the process has taken at most."""
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/census.parquet"
        part = census(1_000_000)
        with pq.ParquetWriter(path, part.schema) as writer:
            for _ in range(millions):
                writer.write_table(part)
        kept: list[int] = []
        taken_s = timed(
            lambda: kept.extend(batch.num_rows for batch in spec("parquet").run(path, engine).batches())
        )
    peak_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    row = [f"{millions},000,000", f"{sum(kept):,}", f"{taken_s:.3g}", f"{peak_gib:.2f}"]
    report("prep_stream", f"{engine}, in batches", ["rows", "kept", "s", "peak GiB"], [row], row)


def _sorted(found: torch.Tensor) -> np.ndarray:
    """By the id, which is the first column, and in float32 not exact: Spark keeps no order."""
    matrix = found.numpy()
    order = np.lexsort(matrix.T[::-1])
    return np.asarray(matrix[order])


def _write_csv(table: Any, path: Path) -> None:
    pl.DataFrame(table).write_csv(path, null_value="NA")


def _report(samples: dict[str, Sample], rows: int, before: tuple[float, float, float]) -> None:
    loop = samples["csv: row loop"]
    lines, data = [], []
    for name, sample in samples.items():
        source = name.partition(":")[0]
        hand, spark = samples[f"{source}: Polars by hand"], samples.get(f"{source}: Spark by hand")
        lines.append(
            [
                name,
                f"{sample.median_s:.3g}",
                ratio(loop, sample),
                ratio(hand, sample),
                "" if spark is None else ratio(spark, sample),
            ]
        )
        data.append({"way": name, "times_s": sample.times_s})
    title = f"{rows:,} rows to a tensor; load {before[0]:.1f} before, {os.getloadavg()[0]:.1f} after"
    headers = ["way", "s", "x row loop", "x Polars by hand", "x Spark by hand"]
    report("prep", title, headers, lines, {"rows": rows, "load": [before, os.getloadavg()], "ways": data})
