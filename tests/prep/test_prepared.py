"""What comes out: Arrow, arrays, tensors, batches, files, loaders; without copies that need not be."""

from __future__ import annotations

import datetime
import itertools
import math
import resource
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from duetlink.base.drawing import screen
from duetlink.data import values
from duetlink.errors import PrepError, PrepNotWritten, SettingError
from duetlink.prep import Loader, Prep, pieces

ROWS = 1_000
ENGINES = ["pyarrow", "polars", "duckdb"]


@pytest.fixture
def table() -> pa.Table:
    chance = np.random.default_rng(1)
    return pa.table(
        {
            "id": np.arange(ROWS),
            "age": chance.integers(0, 90, ROWS),
            "pay": chance.normal(3_000, 900, ROWS),
            "job": chance.choice(["a", "b"], ROWS),
        }
    )


PREP = Prep().one_hot("job", ["a", "b"]).scale("age", (0, 100)).split(0.8, seed=5, by="id")


@pytest.mark.parametrize("engine", ENGINES)
def test_all_ways_out_hold_the_same(table: pa.Table, engine: str) -> None:
    found = PREP.run(table, engine)
    assert found.columns == {
        "id": "int64",
        "age": "float64",
        "pay": "float64",
        "job=a": "int8",
        "job=b": "int8",
        "train": "bool",
    }
    assert len(found) == ROWS
    streamed = pa.Table.from_batches(list(found.batches(64))).combine_chunks()
    assert max(batch.num_rows for batch in found.batches(64)) == 64
    assert streamed.equals(found.arrow().combine_chunks())
    matrix = found.numpy(np.float64)
    assert matrix.flags.c_contiguous
    assert matrix.shape == (ROWS, 6)
    assert np.array_equal(matrix, np.column_stack([found.column(name) for name in found.columns]))
    tensor = found.train.tensor(columns=["age", "job=a"])
    assert tensor.dtype == torch.float32
    assert tensor.is_contiguous()
    chosen = found.column("train")
    assert np.array_equal(tensor.numpy(), matrix[chosen][:, [1, 3]].astype(np.float32))
    assert len(found.train) + len(found.test) == ROWS
    assert sorted([*found.train.column("id"), *found.test.column("id")]) == list(range(ROWS))
    assert "train" not in found.train.columns


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def test_a_column_is_a_view_of_the_memory_that_the_engine_made(table: pa.Table) -> None:
    found = Prep().scale("age", (0, 100)).run(table)
    assert address(found.column("age")) == found.arrow()["age"].chunk(0).buffers()[1].address
    assert address(found.column("id")) == table["id"].chunk(0).buffers()[1].address  # as it came in


@pytest.mark.parametrize("engine", ["pyarrow", "polars"])
def test_a_batch_is_a_view_of_the_table(table: pa.Table, engine: str) -> None:
    found = Prep().scale("age", (0, 100)).run(table, engine)
    batch = next(iter(found.batches(10)))
    whole = found.arrow()["age"].chunk(0).buffers()[1].address
    assert address(batch["age"].to_numpy(zero_copy_only=True)) == whole


def test_a_tensor_is_the_matrix_and_goes_to_share_as_it_is(table: pa.Table) -> None:
    found = Prep().select("age", "pay").run(table)
    matrix = found.numpy()
    tensor = torch.from_numpy(matrix)
    encoded = values.encode(tensor)
    addresses = [np.frombuffer(part, np.uint8).__array_interface__["data"][0] for part in encoded.segments]
    assert matrix.__array_interface__["data"][0] in addresses
    assert found.tensor().data_ptr() != found.tensor().data_ptr()  # each a copy of its own


def test_what_is_missing_is_nan_and_nothing_else_can_be(table: pa.Table) -> None:
    holes = pa.table({"a": pa.array([1, None, 3]), "b": pa.array([True, False, None])})
    found = Prep().run(holes)
    np.testing.assert_array_equal(found.numpy(), np.array([[1, 1], [np.nan, 0], [3, np.nan]], np.float32))
    with pytest.raises(PrepError, match="drop_missing"):
        found.numpy(np.int64)
    with pytest.raises(PrepError, match="no number"):
        Prep().run(table).numpy()
    with pytest.raises(PrepError, match="no prepared column 'salary'"):
        found.column("salary")


def test_a_matrix_holds_every_item_as_it_is_or_is_refused() -> None:
    """Fractions are rounded; whole numbers are not, nor cut or wrapped around."""
    found = Prep().run(pa.table({"a": [300, -1], "b": [0.5, 1.0], "c": [True, False]}))
    assert found.numpy(np.int16, ["a", "c"]).tolist() == [[300, 1], [-1, 0]]
    assert found.numpy(np.bool_, ["c"]).tolist() == [[True], [False]]
    for dtype, columns in ((np.int8, ["a"]), (np.uint16, ["a"]), (np.int64, ["b"]), (np.bool_, ["a"])):
        with pytest.raises(PrepError, match=r"has items that .* cannot have") as error:
            found.numpy(dtype, columns)
        assert error.value.column == columns[0]
    large = Prep().run(pa.table({"a": [2**53 + 1, None]}))
    with pytest.raises(PrepError, match=r"'a' has missing items and whole numbers beyond 2\*\*53"):
        large.column("a")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("items", "dtype", "wider"),
    [
        ([2**24, 2**24 + 1], np.float32, np.float64),
        ([-(2**24) - 1, None], np.float32, np.float64),
        ([2**11 + 1], np.float16, np.float32),
        ([2**53 + 1], np.float64, np.int64),
        ([0.5, 1e39], np.float32, np.float64),
        ([-1e39, None, math.inf], np.float32, np.float64),
        ([65_520.0], np.float16, np.float32),
    ],
)
def test_a_number_that_a_matrix_would_change_is_refused(
    items: list[Any], dtype: Any, wider: Any, engine: str
) -> None:
    found = Prep().run(pa.table({"id": range(len(items)), "a": items}), engine)
    for make in (found.numpy, found.tensor):
        with pytest.raises(PrepError, match=f"has items that {np.dtype(dtype)} cannot have") as error:
            make(dtype)
        assert error.value.column == "a"
    with pytest.raises(PrepError, match="cannot have"):
        found.loader(2, label="id", dtype=dtype)
    expected = [math.nan if item is None else item for item in items]
    np.testing.assert_array_equal(found.numpy(wider, ["a"])[:, 0], np.array(expected, wider))


def test_the_largest_numbers_of_a_type_fit_into_its_matrix() -> None:
    table = pa.table({"a": [2**24, -(2**24)], "b": [3.4028234663852886e38, -math.inf], "c": [0.1, math.nan]})
    expected = np.array([[2**24, 3.4028235e38, 0.1], [-(2**24), -math.inf, math.nan]], np.float32)
    np.testing.assert_array_equal(Prep().run(table).numpy(), expected)


def test_a_column_of_other_things_than_numbers_is_an_array_of_them() -> None:
    day = datetime.date(2026, 11, 23)
    found = Prep().run(pa.table({"word": ["1", None], "day": pa.array([day, None])}))
    assert found.column("word").tolist() == ["1", None]
    assert str(found.column("day").tolist()) == "[datetime.date(2026, 11, 23), None]"
    with pytest.raises(PrepError, match="column 'word' of the table is text, which is no number"):
        Prep().run(pa.table({"age": [1], "word": ["a"]})).loader(2, label="word")


# -- files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_a_file_is_written_whole(table: pa.Table, tmp_path: Path, engine: str) -> None:
    path = PREP.run(table, engine).train.to_parquet(tmp_path / "train.parquet")
    assert pq.read_table(path).num_rows == len(PREP.run(table).train)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("engine", ENGINES)
def test_no_room_on_the_disk_leaves_nothing_half_written(
    table: pa.Table, tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "ROWS", 100)  # some of them are written before there is no room
    path = tmp_path / "out.parquet"
    path.write_bytes(b"before")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, before[1]))
    try:
        with pytest.raises(PrepNotWritten, match="free disk space"):
            Prep().run(table, engine).to_parquet(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(PrepNotWritten):
        Prep().run(table, engine).to_parquet(tmp_path / "nowhere" / "out.parquet")


def test_a_bar_is_drawn_for_what_takes_long(
    table: pa.Table, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    Prep().run(table).arrow()
    assert capfd.readouterr().err == ""
    monkeypatch.setattr(screen, "is_log", lambda: False)
    monkeypatch.setattr(screen, "DELAY_S", 0.0)
    for _ in Prep().run(table, "duckdb").batches(100):
        pass
    assert "prepare the table" in capfd.readouterr().err


# -- loaders -----------------------------------------------------------------------------------------------


def test_a_loader_goes_through_all_rows_with_their_labels(table: pa.Table) -> None:
    found = Prep().select("id", "age", "pay").run(table)
    loader = found.loader(64, label="id")
    batches = list(loader)
    assert len(batches) == len(loader) == 16
    rows, labels = (torch.cat(parts) for parts in zip(*batches, strict=True))
    assert rows.shape == (ROWS, 2)
    assert labels.tolist() == list(range(ROWS))
    assert batches[0][0].data_ptr() == loader.data.data_ptr()  # a view
    shuffled = found.loader(64, label="id", shuffle=7)
    first, second = ([label for _, labels in shuffled for label in labels.tolist()] for _ in range(2))
    assert sorted(first) == sorted(second) == list(range(ROWS))
    assert first != second
    again = found.loader(64, label="id", shuffle=7)
    assert [label for _, labels in again for label in labels.tolist()] == first
    for rows, labels in itertools.islice(shuffled, 3):
        assert torch.equal(rows, torch.from_numpy(found.numpy()[labels.numpy(), 1:]))


def test_labels_stay_beside_their_rows_where_a_relation_has_no_order() -> None:
    """Each run of it has another order; the labels come with the rows."""
    shuffled = duckdb.connect().sql("SELECT i, i AS j FROM range(500) AS t(i) ORDER BY random()")
    ((rows, labels),) = Prep().run(shuffled).loader(500, label="j")
    assert rows.flatten().tolist() == labels.tolist()
    assert sorted(labels.tolist()) == list(range(500))


def test_batches_of_a_loader_are_what_a_loss_of_classes_takes() -> None:
    """Classes are int8 in tables; of Poisson sampling a batch may have no rows."""
    table = pa.table({"age": np.arange(40.0), "job": pa.array([0, 1] * 20, pa.int8())})
    found = Prep().scale("age", (0, 40)).run(table)
    model, loss = torch.nn.Linear(1, 2), torch.nn.CrossEntropyLoss(reduction="sum")
    for loader in (found.loader(16, shuffle=1, label="job"), found.loader(poisson=0.02, label="job", seed=1)):
        batches = list(loader)
        sum(loss(model(rows), labels) for rows, labels in batches).backward()
        assert {labels.dtype for _, labels in batches} == {torch.int64}
    assert {len(labels) for _, labels in batches} >= {0, 1}
    assert model.weight.grad is not None


def test_poisson_sampling_takes_each_row_by_itself() -> None:
    """10,000 batches of 4 rows: each subset comes as often as independent draws would give, by chi-square."""
    loader = Loader(np.arange(4, dtype=np.float32).reshape(4, 1), poisson=0.3, steps=10_000, seed=1)
    seen = Counter(tuple(sorted(batch.flatten().int().tolist())) for batch in loader)
    assert len(loader) == 10_000
    statistic = 0.0
    for size in range(5):
        for subset in itertools.combinations(range(4), size):
            expected = 10_000 * 0.3**size * 0.7 ** (4 - size)
            statistic += (seen[subset] - expected) ** 2 / expected
    assert statistic < 37.7  # 99.9 % of chi-square with 15 degrees of freedom
    assert len(Loader(np.zeros((10, 1), np.float32), poisson=0.03)) == 34


def test_who_is_drawn_cannot_be_foretold(monkeypatch: pytest.MonkeyPatch) -> None:
    """No generator for simulations is asked, and no two rounds or loaders are alike."""
    monkeypatch.setattr(np.random, "default_rng", lambda *_: pytest.fail("a generator for simulations"))
    data = np.arange(64, dtype=np.float32).reshape(64, 1)
    loader = Loader(data, poisson=0.5, steps=2)
    rounds = [*loader, *loader, *Loader(data, poisson=0.5, steps=2)]
    assert len({tuple(batch.flatten().tolist()) for batch in rounds}) == 6


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"batch": 0},
        {"batch": 2, "poisson": 0.1},
        {"poisson": 0},
        {"poisson": 0.1, "shuffle": 1},
        {"batch": 2, "seed": 1},
    ],
)
def test_a_loader_says_what_does_not_fit(arguments: dict[str, Any]) -> None:
    with pytest.raises(SettingError):
        Loader(np.zeros((3, 1), np.float32), **arguments)


def test_every_kind_of_table_is_a_source(table: pa.Table) -> None:
    import polars as pl

    frame = pl.DataFrame(table)
    sources: dict[str, list[Any]] = {
        "pyarrow": [
            table,
            table.to_pandas(),
            pa.RecordBatchReader.from_batches(table.schema, table.to_batches()),
        ],
        "polars": [frame, frame.lazy()],
        "duckdb": [duckdb.connect().from_arrow(table)],
    }
    expected = PREP.run(table).numpy()
    for engine, tables in sources.items():
        for source in tables:
            found = PREP.run(source)
            assert found.engine == engine
            assert np.array_equal(found.numpy(), expected)
    categories = frame.with_columns(pl.col("job").cast(pl.Categorical))
    assert np.array_equal(PREP.run(categories).numpy(), expected)
    assert np.array_equal(PREP.run(table.to_pandas().astype({"job": "category"})).numpy(), expected)
