"""A fixture for packages whose tests use the large libraries, to be imported in their `conftest.py`."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package", autouse=True)
def libraries_out_of_the_collector_s_way() -> Iterator[None]:
    """Every test collects garbage at its end; without this, torch's and pandas's modules are most of that."""
    import pandas  # noqa: F401
    import polars  # noqa: F401
    import torch  # noqa: F401

    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
