"""Statements of public tutorials on pointers: equal to the local result, or refused; never different.
What they tell in plain values is the same in twelve other worlds.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.remote.conftest import Bench
from tests.remote.fuzzer.desk import Desk
from tests.remote.statements import REFUSED, SHARED, Play, Report, read
from tests.remote.worlds import compare

FILES = sorted((Path(__file__).parent / "corpus").glob("*.py"))
IN_ROOMS = ("pandas_groupby", "torch_basics")  # of a library that copies and of one that shares memory


# how many plain values each tells of pointers, and how many of them are met in at least six worlds
TOLD = {
    "eda_models": (26, 26),
    "eda_polars": (35, 35),
    "eda_time_series": (23, 23),
    "eda_titanic": (54, 54),
    "numpy_100": (25, 25),
    "pandas_10min": (5, 5),
    "pandas_groupby": (0, 0),
    "pandas_indexing": (4, 4),
    "pandas_reshaping": (1, 1),
    "pandas_text_time": (0, 0),
    "polars_guide": (5, 5),
    "sklearn_examples": (3, 3),
    "statsmodels_scipy": (30, 30),
    "torch_basics": (12, 12),
}


class Rooms:
    """A duet, as `Play` takes it."""

    def __init__(self, bench: Bench) -> None:
        self.share = bench.share
        self.remote = bench.scientist.remote
        self._fetch = bench.scientist.fetch

    def fetch(self, obj: Any) -> Any:
        return self._fetch(obj, reason="the corpus")


@pytest.fixture
def desk() -> Iterator[Desk]:
    """What a duet does, without a link, and without the two processes of each request."""
    with contextlib.closing(Desk({}, {})) as desk:
        yield desk


@pytest.mark.filterwarnings("ignore")  # as rooms do, which warn nobody
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_tutorial_on_pointers_is_equal_or_refused_and_tells_no_fact_of_a_mock(
    desk: Desk, path: Path
) -> None:
    statements, play = read(path), Play(desk, path.stem)
    report = play.play(statements)
    assert not report.surprises, "\n".join(["", *report.surprises])
    found = compare(statements, play.done)
    assert not found.differences, "\n".join(["", *found.differences])
    assert (found.told, found.compared) == TOLD[path.stem]


@pytest.mark.parametrize("name", IN_ROOMS)
def test_a_tutorial_in_rooms_is_equal_or_refused(bench: Bench, name: str) -> None:
    """`weekly_corpus.py` has all of them."""
    play_in_rooms(bench, name)


def play_in_rooms(bench: Bench, name: str) -> None:
    (path,) = (path for path in FILES if path.stem == name)
    report = Play(Rooms(bench), name).play(read(path))
    assert not report.surprises, "\n".join(["", *report.surprises])


def test_the_corpus_has_a_thousand_statements_and_names_its_sources() -> None:
    statements = [statement for path in FILES for statement in read(path)]
    tried = [one for one in statements if not isinstance(one.node, (ast.Import, ast.ImportFrom))]
    assert len(tried) - sum(one.mark == SHARED for one in tried) >= 1000
    assert sum(one.mark == REFUSED for one in tried) < 0.15 * len(tried)
    for path in FILES:
        assert "https://" in (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""), path.stem


def test_most_of_what_is_told_is_met_in_half_of_the_worlds_or_more() -> None:
    told, compared = (sum(counts) for counts in zip(*TOLD.values(), strict=True))
    assert (told, compared) == (223, 223)


def played(bench: Bench, tmp_path: Path, statement: str, **names: Any) -> Report:
    """The report of one statement about a shared array."""
    path = tmp_path / f"one {abs(hash(statement))}.py"
    path.write_text(f'"""."""\nimport numpy as np\nx = np.arange(3.0)  # shared\n{statement}\n', "utf-8")
    play = Play(Rooms(bench), path.stem)
    for name, (here, there) in names.items():
        play.here[name], play.there[name] = here, there
    return play.play(read(path))


def test_what_is_different_in_silence_is_found(bench: Bench, tmp_path: Path) -> None:
    def found(statement: str, **names: Any) -> str:
        return "".join(played(bench, tmp_path, statement, **names).surprises)

    def mine(pointer: Any) -> Any:
        return pointer.mock.sum()

    assert not found("(x * 2).sum()")
    assert "met differs" in found("total(x)", total=(np.sum, mine))
    assert "met differs" in found("total(x)  # refused: PrivateValue", total=(np.sum, mine))
    assert "met differs" in found("y = total(x)", total=(np.sum, mine))
    assert "met refused PrivateValue" in found("float(x.sum())")
    assert "expected refused PrivateValue, met equal" in found("x.sum()  # refused: PrivateValue")
    with pytest.raises(ValueError, match="no mark"):
        found("x.sum()  # refuse")
