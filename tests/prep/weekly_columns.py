"""10,000 columns on Spark with Java, which takes minutes. Run by `make engines`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.prep.test_engines_agree import check_wide, wide


@pytest.mark.timeout(900)
def test_ten_thousand_columns_on_spark(spark: Any) -> None:
    table, prep = wide()
    check_wide(prep.run(spark.createDataFrame(table)).numpy())
