"""Pairs of connected duets in one process, over a signaling server of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import duetlink
from duetlink.duet.duet import Duet
from duetlink.settings import Settings

Pair = tuple[Duet, Duet]
MakeDuets = Callable[..., Pair]


@pytest.fixture
def make_duets() -> Iterator[MakeDuets]:
    """Makes `(owner, scientist)`, connected; keyword arguments are settings of both."""
    made: list[Duet] = []

    def make(**settings: Any) -> Pair:
        chosen = Settings(**settings)
        owner = duetlink.launch(name="Olga", settings=chosen)
        made.append(owner)
        assert owner.code is not None
        scientist = duetlink.join(owner.code, name="Sven", settings=chosen)
        made.append(scientist)
        return owner.wait_connected(10), scientist

    yield make
    for duet in made:
        duet.close()


@pytest.fixture
def duets(make_duets: MakeDuets) -> Pair:
    return make_duets()
