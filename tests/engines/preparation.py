"""Preparations on Spark Connect without Java: Sail serves at the data owner's, over a shared port."""

from __future__ import annotations

import threading
import time
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import duetlink
from duetlink.errors import PrepError
from duetlink.prep import Prep
from duetlink.prep.engines import spark
from tests.engines.programs import Programs, wait_listening
from tests.free_port import free_port
from tests.prep.naive import prepared
from tests.prep.test_engines_agree import FIELDS, ROW, SCHEMA, all_casts, edge_rows, preps, same
from tests.prep.test_row_order import check_labels

_EXAMPLES = 300


def run(programs: Programs) -> str:
    port = free_port()
    programs.start("sail", "spark", "server", "--ip", "127.0.0.1", "--port", str(port))
    wait_listening(port)
    with duetlink.launch() as owner, duetlink.join(str(owner.code)) as scientist:
        owner.share_port(port, "spark")
        opened = scientist.open_port("spark")
        from pyspark.sql.connect.session import SparkSession

        session = SparkSession.builder.remote(f"sc://{opened.address}").create()
        try:
            version = session.version
            _every_cast(session)
            _random_preparations(session)
            _files(session, programs)
            _errors(session)
            check_labels(session)
            _many_columns(session)
            stopped_s = _interrupted(session)
        finally:
            session.stop()
        assert opened.received_bytes > 100_000
        return f"as a loop over rows, as Spark {version}; a query stopped after {stopped_s:.1f} s"


def _every_cast(session: Any) -> None:
    rows = edge_rows()
    for some in (rows, rows[:1], []):
        for prep in all_casts():
            found = prep.run(pa.Table.from_pylist(some, SCHEMA), session)
            assert found.engine == "spark"
            same(found.arrow(), prepared(prep, some, FIELDS), prep)
            batches = list(prep.run(pa.Table.from_pylist(some, SCHEMA), session).batches(5))
            same(pa.Table.from_batches(batches), prepared(prep, some, FIELDS), prep)


def _random_preparations(session: Any) -> None:
    @settings(max_examples=_EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(ROW, max_size=8), preps())
    def agree(rows: list[dict[str, Any]], prep: Prep) -> None:
        table = pa.Table.from_pylist(rows, SCHEMA)
        same(prep.run(table, session).arrow(), prepared(prep, rows, FIELDS), prep)

    agree()


def _files(session: Any, programs: Programs) -> None:
    """The server reads them, so that they have to be where it is."""
    rows, prep = edge_rows(), all_casts()[-1].split(0.5, seed=1, by="id")
    path = programs.directory / "rows.parquet"
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path)
    same(prep.run(path, session).arrow(), prepared(prep, rows, FIELDS), prep)
    text = programs.directory / "people.csv"
    text.write_text('age,"a ""name""",x\n1,"a, b",\n,"two\nlines",""\n007,NA,é\n', "utf-8")
    assert Prep().run(text, session).arrow().to_pylist() == [
        {"age": "1", 'a "name"': "a, b", "x": None},
        {"age": None, 'a "name"': "two\nlines", "x": None},
        {"age": "007", 'a "name"': "NA", "x": "é"},
    ]


def _errors(session: Any) -> None:
    table = pa.Table.from_pylist(edge_rows(), SCHEMA)
    with pytest.raises(PrepError, match=r"column 'word', has an item that is no int8"):
        Prep().cast(word="int8").run(table, session).arrow()
    with pytest.raises(PrepError, match="give by="):
        Prep().split(0.5, seed=1).run(table, session)


def _many_columns(session: Any) -> None:
    """Sail's planning takes time with the square of the columns: 10,000 of them took minutes."""
    table = pa.table({f"c{n}": pa.array([n, None, -n], pa.int64()) for n in range(2_000)})
    assert Prep().drop_missing().run(table, session).numpy().shape == (2, 2_000)


def _interrupted(session: Any) -> float:
    """How long a query goes on that `cancel` ends, as Ctrl-C does."""
    endless = session.range(1_000_000).crossJoin(session.range(1_000_000).withColumnRenamed("id", "other"))
    sources: list[spark.SparkSource] = []

    class Noted(spark.SparkSource):
        def collect(self, frame: Any) -> pa.Table:
            sources.append(self)
            return super().collect(frame)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spark, "SparkSource", Noted)
        found = Prep().clip("id", (0, 1)).run(endless.selectExpr("sum(id * other % 7) as id"))
    ended = threading.Event()

    def collect() -> None:
        try:
            found.arrow()
        except BaseException:
            ended.set()

    threading.Thread(target=collect, daemon=True).start()
    assert not ended.wait(3)
    begin_s = time.monotonic()
    sources[0].cancel()
    assert ended.wait(30), "the query goes on"
    return time.monotonic() - begin_s
