"""duetlink as torch.distributed's backend: three processes, every operation, compared with gloo."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.groups import torch_ranks


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("ranks")
    torch_ranks.run(directory)
    return directory


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [*torch_ranks.CHECKS, "end", "meet", *torch_ranks.MET])
def test_on_three_ranks(outcomes: Path, name: str) -> None:
    for rank in range(torch_ranks.SIZE):
        assert (outcomes / f"{name}-{rank}").read_text(encoding="utf-8") == "right"
