"""10,000 columns, which takes minutes on Spark with Java. Run by the weekly job; the tests have 2,000."""

from __future__ import annotations

from typing import Any

import pytest

from tests.prep.test_engines_agree import ENGINES, check_wide, wide

COLUMNS = 10_000


@pytest.mark.timeout(900)
def test_ten_thousand_columns_on_spark(spark: Any) -> None:
    table, prep = wide(COLUMNS)
    check_wide(prep.run(spark.createDataFrame(table)).numpy(), COLUMNS)


@pytest.mark.parametrize("engine", ENGINES)
def test_ten_thousand_columns(engine: str) -> None:
    table, prep = wide(COLUMNS)
    check_wide(prep.run(table, engine).numpy(), COLUMNS)
