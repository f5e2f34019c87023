"""Kernels of an owner, one after the other, and scientists who join them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import duetlink
from duetlink.duet.duet import Duet
from duetlink.settings import Settings

Launch = Callable[..., Duet]
Join = Callable[..., Duet]


@pytest.fixture
def states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DUETLINK_STATE_PATH", str(tmp_path / "states"))
    return tmp_path / "states"


@pytest.fixture
def open_duets(states: Path) -> Iterator[list[Duet]]:
    opened: list[Duet] = []
    yield opened
    for duet in reversed(opened):
        duet.close()


@pytest.fixture
def launch(open_duets: list[Duet], states: Path) -> Launch:
    """An owner's kernel begins; the one before it ends."""

    def launch(resume: Any = "clinic", **fields: Any) -> Duet:
        for duet in open_duets:
            duet.close()
        settings = Settings(state_path=str(states), **fields)
        open_duets.append(duetlink.launch(name="Olga", settings=settings, resume=resume))
        return open_duets[-1]

    return launch


@pytest.fixture
def join(open_duets: list[Duet]) -> Join:
    def join(owner: Duet, name: str = "Sven") -> Duet:
        open_duets.append(duetlink.join(str(owner.code), name=name))
        owner.wait_connected(10)
        return open_duets[-1]

    return join
