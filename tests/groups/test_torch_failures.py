"""duetlink as a backend of torch.distributed, where sums fail and callbacks wait: errors, never signals."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.groups import torch_failures


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("failures")
    torch_failures.run(directory, tuple(torch_failures.CASES))
    return directory


@pytest.mark.slow
@pytest.mark.parametrize("name", torch_failures.CASES)
def test_on_three_ranks(outcomes: Path, name: str) -> None:
    for rank in range(torch_failures.SIZE):
        assert (outcomes / f"{name}-{rank}").read_text(encoding="utf-8") == "right"


@pytest.mark.slow
def test_a_killed_rank_is_named_to_all(outcomes: Path) -> None:
    for rank in (0, 2):
        assert (outcomes / f"killed-{rank}").read_text(encoding="utf-8") == "right"
