"""Which rows a split trains with."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from duetlink.errors import PrepError
from duetlink.prep import Prep

ROWS = 20_000
ENGINES = ["pyarrow", "polars", "duckdb"]


def trained(prep: Prep, source: object, engine: str) -> set[int]:
    return set(prep.run(source, engine).train.column("id").tolist())


def test_it_is_the_same_on_every_engine_in_any_order_and_for_ever() -> None:
    ids = np.arange(ROWS) - 5_000
    prep = Prep().split(0.8, seed=3, by="id")
    expected = trained(prep, pa.table({"id": ids}), "pyarrow")
    assert sorted(expected)[:8] == [-5000, -4999, -4998, -4997, -4995, -4994, -4993, -4991]
    assert len(expected) == 16_001
    for engine in ENGINES:
        shuffled = np.random.default_rng(1).permutation(ids)
        assert trained(prep, pa.table({"id": shuffled}), engine) == expected


@pytest.mark.parametrize("keys", ["ascending", "even", "large", "powers"])
def test_it_has_the_share_that_was_asked_for_and_no_pattern(keys: str) -> None:
    """Within 5 standard deviations: the share, and that of neighbours and of other seeds that agree."""
    ids = {
        "ascending": np.arange(ROWS),
        "even": np.arange(ROWS) * 1_024,
        "large": np.arange(ROWS) * 2_147_483_579 + 7,
        "powers": np.arange(ROWS) - 2**62,
    }[keys]
    chosen = [
        Prep().split(0.5, seed=seed, by="id").run(pa.table({"id": ids})).column("train") for seed in range(4)
    ]
    five = 5 * 0.5 / np.sqrt(ROWS)
    for one in chosen:
        assert abs(one.mean() - 0.5) < five
        assert abs((one[1:] == one[:-1]).mean() - 0.5) < five
        assert abs((one[2:] == one[:-2]).mean() - 0.5) < five
    for one, other in itertools.pairwise(chosen):
        assert abs((one == other).mean() - 0.5) < five


def test_without_a_key_the_number_of_the_row_decides(tmp_path: Path) -> None:
    table = pa.table({"id": np.arange(ROWS), "x": pa.array([None, 1] * (ROWS // 2))})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=1_000)
    (tmp_path / "rows.csv").write_text(
        "id,x\n" + "".join(f"{n},{'' if n % 2 == 0 else 1}\n" for n in range(ROWS))
    )
    prep = Prep().drop_missing().split(0.5, seed=3)
    expected = trained(Prep().split(0.5, seed=3, by="id").drop_missing(), table, "pyarrow")
    for engine in ENGINES:
        assert trained(prep, table, engine) == expected
        assert trained(prep, tmp_path / "rows.parquet", engine) == expected
        numbered = Prep((*prep.cast(id="int64").steps,))
        assert trained(numbered, tmp_path / "rows.csv", engine) == expected


def test_what_has_no_order_needs_a_key() -> None:
    import duckdb

    relation = duckdb.connect().from_arrow(pa.table({"id": [1, 2, 3]}))
    with pytest.raises(PrepError, match="give by="):
        Prep().split(0.5, seed=1).run(relation)
    assert len(Prep().split(0.5, seed=1, by="id").run(relation)) == 3


def test_rows_without_a_key_stay_together() -> None:
    table = pa.table({"id": pa.array([None, 0, None, 0], pa.int64())})
    assert len(set(Prep().split(0.5, seed=1, by="id").run(table).column("train").tolist())) == 1
