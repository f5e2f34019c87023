"""A tuner whose codecs are models, and transfers that it steers in virtual time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from duetlink.data.codecs.base import Codec
from duetlink.data.tuning import CodecController, Compression, History, Tuner
from tests.data.tuning.simulation import MIB, Link, Simulation, World, codecs_of


class Bench:
    """One tuner and the world that it lives in."""

    def __init__(self, codecs: list[Codec], world: World, compression: Compression, together: bool) -> None:
        self.world, self.codecs = world, codecs
        self.history = History(1000)
        self.running: Simulation | None = None
        names = frozenset(codec.name for codec in codecs)
        self.wanted: list[str] = []
        self.tuner = Tuner(
            compression,
            names,
            2,
            self.history.add,
            clock=self._clock,
            together=together,
            wanted=self.wanted.append,
        )

    def _clock(self) -> float:
        return self.running.now if self.running is not None else 0.0

    def transfer(self, kinds: list[tuple[int, str]], link: Link, size: int = 64 * MIB) -> Simulation:
        """A transfer that is ready to run."""
        controller = CodecController(self.tuner, "x", "tcp", size, 0.0)
        self.running = Simulation(self.world, link, controller, size, kinds)
        return self.running

    def controller(self) -> CodecController:
        return CodecController(self.tuner, "x", "tcp", 64 * MIB, 0.0)


MakeBench = Callable[..., Bench]


@pytest.fixture
def make_bench(monkeypatch: pytest.MonkeyPatch) -> MakeBench:
    def make(
        speed: float | None = None,
        *,
        slowdown: float = 1.0,
        names: dict[str, str] | None = None,
        compression: Compression | None = None,
        together: bool = False,
    ) -> Bench:
        """`speed` of the path, in MB/s, where it is known already."""
        world = World()
        codecs = codecs_of(world, slowdown, names)
        monkeypatch.setattr("duetlink.data.tuning.tuner.codecs", lambda: tuple(codecs))
        bench = Bench(codecs, world, compression or Compression(), together)
        if speed is not None:
            bench.tuner.goodput["tcp"] = speed * 1e6
        return bench

    return make
