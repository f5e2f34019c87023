"""The contracts that duetlink ships, for what this package adds. Run where it is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from measures import Measures

from duetlink.settings import Settings
from duetlink.testing.paths import PathContract
from duetlink.testing.values import ValueContract


class TestMeasures(ValueContract):
    def samples(self) -> dict[str, Any]:
        return {
            "weights": Measures(np.arange(5.0), "kg"),
            "none": Measures(np.empty((0, 2), np.int8), "m"),
        }

    def equal(self, left: Any, right: Any) -> bool:
        same = left.unit == right.unit and left.numbers.dtype == right.numbers.dtype
        return bool(same and np.array_equal(left.numbers, right.numbers))


class TestFolder(PathContract):
    @pytest.fixture
    async def links(self, make_pair: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
        monkeypatch.setenv("MEASURES_FOLDER", str(tmp_path))
        return await make_pair(Settings(only=("folder",)))
