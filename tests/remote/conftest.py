"""One pairing for all tests of a module."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import duetlink
from duetlink.duet.answering.requests import Request
from duetlink.duet.duet import Duet
from duetlink.errors import DuetError
from duetlink.settings import Settings

Answer = Callable[[Request], None]


@dataclass
class Bench:
    """An owner and a scientist in one process; requests are approved unless a test says otherwise."""

    owner: Duet
    scientist: Duet
    answer: Answer | None = None

    def share(self, obj: object, name: str, mock: object = "auto") -> Any:
        """Share at the owner, and the scientist's pointer to it."""
        revision = self.owner.share(obj, name, mock=mock).revision
        return self.scientist.wait_object(name, 10, revision=revision)

    def serve(self) -> None:
        while True:
            try:
                request = self.owner.wait_request()
                if self.answer is not None:
                    self.answer(request)
                elif request.failure:
                    request.fail("message")
                else:
                    request.approve()
            except DuetError:
                if self.owner.state.startswith("closed"):
                    return


@pytest.fixture(scope="module")
def shared_bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    directory: Path = tmp_path_factory.mktemp("remote")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_RUNTIME_DIR", str(directory / "runtime"))
        settings = Settings(
            audit_path=str(directory / "audit.jsonl"),
            budget_path=str(directory / "privacy.jsonl"),
        )
        owner = duetlink.launch(name="Olga", settings=settings)
        scientist = duetlink.join(str(owner.code), name="Sven", settings=settings)
    bench = Bench(owner, scientist)
    serving = threading.Thread(target=bench.serve, daemon=True)
    serving.start()
    yield bench
    scientist.close()
    owner.close()
    serving.join(10)


@pytest.fixture
def bench(shared_bench: Bench) -> Iterator[Bench]:
    yield shared_bench
    shared_bench.answer = None


@pytest.fixture(autouse=True)
def nothing_left_behind() -> None:
    """Not asked of each test here: a pairing that lives on starts threads when it first needs them."""
