"""duetlink as the backend of torch.distributed in three processes: like gloo, and by torch's own cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.groups import torch_cases, torch_ranks

NAMES = (*torch_ranks.CHECKS, "end", "meet", *torch_ranks.MET, *torch_cases.IN_CI)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("ranks")
    torch_ranks.run(directory)
    return directory


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_on_three_ranks(outcomes: Path, name: str) -> None:
    for rank in range(torch_ranks.SIZE):
        assert (outcomes / f"{name}-{rank}").read_text(encoding="utf-8") == "right"
