"""The owner's lists, and what is public of the assets that these tests are about."""

from __future__ import annotations

import numpy as np
import pytest

from duetlink.compute.operations.allow_lists.allowed import Allowed
from duetlink.compute.privacy.lineage import Schemas
from duetlink.compute.privacy.table import table_of

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
torch = pytest.importorskip("torch")


@pytest.fixture(scope="session")
def allowed() -> Allowed:
    return Allowed(["python", "numpy", "pandas", "polars", "torch", "duetlink"])


@pytest.fixture(scope="session")
def schemas() -> Schemas:
    data = {"age": [31.0, 40.5], "income": [1_000, 2_000], "male": [True, False], "town": ["Ulm", "Bonn"]}
    matrix = np.zeros((2, 3))
    assets = {
        "people": pd.DataFrame(data),
        "others": pd.DataFrame(data),
        "polars": pl.DataFrame(data),
        "series": pd.Series([1.0, 2.0]),
        "array": np.zeros(2),
        "whole": np.zeros(2, dtype=np.int64),
        "matrix": matrix,
        "tensor": torch.zeros(2),
        "tensors": torch.zeros((2, 3)),
    }
    return {(name, 1): table_of(asset) for name, asset in assets.items()}
