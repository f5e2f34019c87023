"""torchrun over duetlink: several nodes, a rank that is late, a restart after one has died."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.free_port import free_port

SCRIPT = Path(__file__).with_name("torchrun_training.py")
TIMEOUT_S = 200

Agents = list[subprocess.Popen[str]]


@pytest.fixture
def agents() -> Iterator[Agents]:
    made: Agents = []
    yield made
    for agent in made:
        if agent.poll() is None:
            agent.terminate()  # it ends its ranks first
            agent.wait(60)


def torchrun(agents: Agents, *options: str, then: tuple[str, ...]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--master-addr=127.0.0.1", *options]
    agent = subprocess.Popen(
        [*command, str(SCRIPT), *then],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        cwd=Path(__file__).resolve().parents[2],
    )
    agents.append(agent)
    return agent


def told(place: Path) -> list[str]:
    return [path.read_text(encoding="utf-8") for path in sorted(place.glob("rank-*"))]


@pytest.mark.slow
@pytest.mark.timeout(2 * TIMEOUT_S)
def test_two_nodes_train_one_model_and_load_a_state(agents: Agents, tmp_path: Path) -> None:
    port = f"--master-port={free_port()}"
    for node in (0, 1):
        options = ("--nnodes=2", f"--node-rank={node}", "--nproc-per-node=1", port)
        torchrun(agents, *options, then=(str(tmp_path),))
    for agent in agents:
        output, _ = agent.communicate(timeout=TIMEOUT_S)
        assert agent.returncode == 0, output
    assert told(tmp_path) == [
        f"attempt 0, 2 ranks, node {node}, the same weights, loaded 630" for node in (0, 1)
    ]


@pytest.mark.slow
@pytest.mark.timeout(2 * TIMEOUT_S)
def test_the_output_names_a_rank_that_is_late(agents: Agents, tmp_path: Path) -> None:
    agent = torchrun(
        agents, f"--master-port={free_port()}", "--nproc-per-node=2", then=(str(tmp_path), "late")
    )
    output, _ = agent.communicate(timeout=TIMEOUT_S)
    assert agent.returncode == 1
    words = "GroupError: all_reduce(float32[212]): Timed out after 3 s: rank 1 has not called it"
    assert f"RuntimeError: Got the following error when running the callback: {words}" in output
    assert "Root Cause (first observed failure):\n[0]:" in output
    assert told(tmp_path) == []


@pytest.mark.slow
@pytest.mark.timeout(2 * TIMEOUT_S)
def test_a_job_whose_rank_has_died_is_restarted(agents: Agents, tmp_path: Path) -> None:
    options = (f"--master-port={free_port()}", "--nproc-per-node=2", "--max-restarts=1")
    agent = torchrun(agents, *options, then=(str(tmp_path), "dies"))
    output, _ = agent.communicate(timeout=TIMEOUT_S)
    assert agent.returncode == 0, output
    assert told(tmp_path) == ["attempt 1, 2 ranks, node 0, the same weights, loaded 630"] * 2
