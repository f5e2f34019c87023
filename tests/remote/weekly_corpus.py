"""All tutorials of the corpus in real rooms. The tests play two there, and all at a desk."""

from __future__ import annotations

import pytest

from tests.remote.conftest import Bench
from tests.remote.test_corpus import FILES, play_in_rooms


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [path.stem for path in FILES])
def test_a_tutorial_in_rooms_is_equal_or_refused(bench: Bench, name: str) -> None:
    play_in_rooms(bench, name)
