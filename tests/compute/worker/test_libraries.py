"""Libraries do their work in a locked down room, what they load on first use included."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from duetlink.compute.worker.protocol.libraries import LIBRARIES
from duetlink.compute.worker.protocol.limits import Limits
from tests.compute.worker.conftest import Asked, Place


@pytest.fixture(scope="module")
def ask(place: Place) -> Iterator[Asked]:
    asked = Asked(place, "probe", tuple(LIBRARIES), Limits(memory_bytes=1 << 30, threads=2))
    yield asked
    asked.close()


def test_it_has_what_is_installed(ask: Asked) -> None:
    assert ask.worker.libraries == tuple(
        name for name in LIBRARIES if importlib.util.find_spec(name) is not None
    )


@pytest.mark.parametrize(
    ("library", "figure"),
    [
        ("numpy", "1.0"),
        ("pandas", "49.0"),
        ("polars", "49.0"),
        ("pyarrow", "6"),
        ("torch", "4"),
        ("sklearn", "True"),
        ("statsmodels", "[0.5, 2.0, -1.0]"),
        ("opendp", "True"),
    ],
)
def test_a_library_computes_again_and_again(ask: Asked, library: str, figure: str) -> None:
    pytest.importorskip(library)
    for _ in range(2):
        assert ask(f"with_{library}") == figure


def test_its_threads_are_as_many_as_allowed(ask: Asked) -> None:
    pytest.importorskip("torch")
    assert ask("count_threads") == "2 2"


def test_only_what_a_library_insists_on_is_in_the_environment(ask: Asked) -> None:
    pytest.importorskip("torch")
    environment, c_environment = eval(ask("environment"))
    assert environment == {"TORCHINDUCTOR_CACHE_DIR": "/", "POLARS_MAX_THREADS": "2"}
    assert c_environment


def test_tensors_beyond_the_limit_of_memory_fail(ask: Asked) -> None:
    pytest.importorskip("torch")
    from duetlink.errors import OperationFailed

    with pytest.raises(OperationFailed, match="more memory than the owner allows"):
        ask("allocate_tensor", str(100 << 30))
    assert ask("with_numpy") == "1.0"
