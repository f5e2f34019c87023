"""Rung `punched` through real links and real helper processes."""

from __future__ import annotations

from typing import Any

import pytest

from duetlink.settings import Settings
from duetlink.testing.paths import PathContract


class TestPunched(PathContract):
    @pytest.fixture
    async def links(self, make_pair: Any) -> Any:
        return await make_pair(Settings(only=("punched",)))
