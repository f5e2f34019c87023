"""What is told of a result is the same for three objects that are as unlike the mock as its schema lets them
be, also where the lists of rules are wrong.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import duetlink
from duetlink import errors
from duetlink.compute.operations.sizes.mask import PUBLIC as TOLD
from duetlink.compute.worker.kernel import runs
from duetlink.duet.asking.mocks import agreement
from duetlink.duet.asking.recording import program
from duetlink.settings import Settings
from duetlink.testing.faults import life_of, set_constants
from tests.remote.conftest import Bench
from tests.remote.test_sizes import PRIVATE, PUBLIC, evaluate, mock_frame, real_frame

# private lengths that the mates of the mocks below do not differ in: the rules alone keep them
ONLY_BY_RULES = {
    'f.explode("town")',  # no text of a mate is a list
    'f.nlargest(5, "age")',  # there are five in any table of sixty rows
    "f.filter(items=[1, 2], axis=0)",  # labels that each mate has
    "s.filter(items=[1, 2])",
    "x[:, x[0] > 0]",  # three columns, by chance
}


OF_TENSORS = re.compile(r"\bt\b")  # whose sizes follow from sizes alone, as torch has it


@pytest.fixture
def without_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each result has sizes that are the same for any data, as the lists have it."""
    monkeypatch.setattr(program, "hidden_after", lambda *arguments: TOLD)


@pytest.fixture(scope="module")
def pointers(shared_bench: Bench) -> dict[str, Any]:
    frame = real_frame()
    objects = {
        "f": (frame, mock_frame()),
        "s": (frame.pay, mock_frame().pay),
        "x": (np.random.default_rng(1).standard_normal((20, 3)), np.zeros((20, 3))),
        "t": (torch.randn(20, 3), torch.zeros(20, 3)),
        "p": (
            pl.from_pandas(frame.reset_index(drop=True)),
            pl.from_pandas(mock_frame().reset_index(drop=True)),
        ),
        "other": (pd.Series(np.arange(60) + 0.5, index=np.arange(60) * 3), pd.Series(np.arange(60) / 3)),
    }
    shared = {name: shared_bench.share(real, f"mates {name}", mock) for name, (real, mock) in objects.items()}
    return {
        **shared,
        **{name: shared_bench.scientist.remote(it) for name, it in (("pd", pd), ("torch", torch))},
    }


def tells(code: str, pointers: dict[str, Any]) -> bool:
    try:
        made = evaluate(code, pointers)
        if isinstance(made, (list, tuple)):
            return True
        tuple(made.shape)
    except errors.PrivateValue:
        return False
    return True


def test_mates_find_private_lengths_that_no_rule_knows(without_rules: None, pointers: dict[str, Any]) -> None:
    codes = [line.partition(" -> ")[0] for line in PRIVATE]
    assert {code for code in codes if not OF_TENSORS.search(code) and tells(code, pointers)} == ONLY_BY_RULES


def test_mates_hide_no_length_that_is_the_same_for_any_data(pointers: dict[str, Any]) -> None:
    hidden = {code for code in PUBLIC if not tells(code, pointers)}
    assert hidden == set()


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The expressions that mates were asked about; they answer that they do not differ."""
    asked: list[str] = []

    def ask(mates: agreement.Mates, program: Any, mock: Any) -> agreement.MateDifference:
        asked.append(program.lineage.expression)
        return agreement.NO_DIFFERENCE

    monkeypatch.setattr(agreement.Mates, "difference_to_mates", ask)
    return asked


def test_mates_are_not_asked_about_a_tensor_that_was_made_of_tensors(
    pointers: dict[str, Any], questions: list[str]
) -> None:
    t = pointers["t"]
    batches = [t[start : start + 5] for start in range(0, 20, 5)]
    assert [tuple(batch.shape) for batch in (*batches, t[0], t[:, None], t[[3, 1]])] == [
        *[(5, 3)] * 4,
        (3,),
        (20, 1, 3),
        (2, 3),
    ]
    assert questions == []


@pytest.mark.parametrize("name", [None, "data"])
def test_mates_are_asked_about_a_tensor_that_was_made_of_another_object(
    name: str | None, pointers: dict[str, Any], questions: list[str]
) -> None:
    x = pointers["x"]
    arguments, keywords = ([x], {}) if name is None else ([], {name: x})
    pointers["torch"].as_tensor(*arguments, **keywords)
    assert len(questions) == 1


# -- what is no size -----------------------------------------------------------------------------------------


def test_a_dtype_that_depends_on_the_data_is_private(pointers: dict[str, Any]) -> None:
    assert (pointers["f"].age + 1).dtype == np.int64
    mapped = pointers["f"].age.map(dict.fromkeys(range(1, 61), 1))  # others become NaN
    with pytest.raises(errors.PrivateValue, match=r"'dtype' of .* depends on the data.*\.astype"):
        mapped.dtype  # noqa: B018
    assert mapped.astype(float).dtype == np.float64


def test_an_error_that_only_the_mock_raises_says_so(pointers: dict[str, Any]) -> None:
    x = pointers["x"]
    with pytest.raises(errors.PrivateValue, match="LinAlgError is the mock's, which is made up: Singular"):
        np.linalg.inv(x.T @ x)


def test_an_error_of_any_data_is_what_the_library_raises(pointers: dict[str, Any]) -> None:
    f, x = pointers["f"], pointers["x"]
    with pytest.raises(IndexError, match="out-of-bounds"):
        f.iloc[1000]
    with pytest.raises(ValueError, match="invalid literal"):
        f.town.astype(int)
    with pytest.raises(ValueError, match="mismatch"):
        x @ np.ones(7)
    with pytest.raises(KeyError, match="wage"):
        f["wage"]


# -- when they are asked -------------------------------------------------------------------------------------


class Counted:
    """How often a room of mates was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times = 0
        self._ask = runs.ask_mates
        monkeypatch.setattr(runs, "ask_mates", self)

    async def __call__(self, room: Any, asked: Any) -> Any:
        self.times += 1
        return await self._ask(room, asked)


def test_what_follows_from_one_object_alone_asks_no_mate(
    pointers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    counted, x, t = Counted(monkeypatch), pointers["x"], pointers["t"]
    assert len(x) == 20
    assert (np.sqrt(x * 2) + 1).shape == (20, 3)
    assert (t @ torch.ones(3, 2)).relu().shape == (20, 2)
    assert repr(x[x[:, 0] > 3].shape) == "(?, 3)"
    assert counted.times == 1  # about the columns of what was chosen


def test_one_question_is_asked_once_whatever_was_tried_between(
    pointers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    counted, x = Counted(monkeypatch), pointers["x"]
    assert (x.T @ x + 7).shape == (3, 3)
    np.cumsum(x, axis=1).min()
    again = x.T @ x + 7
    assert (again.shape, again.ndim, len(again)) == ((3, 3), 2, 3)
    assert counted.times == 1


def test_where_the_room_of_the_mates_ends_the_rules_decide_and_say_so_once(
    pointers: dict[str, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def end(room: Any, asked: Any) -> None:
        room.kill("it took over 30 s")
        raise errors.WorkLimit("it took over 30 s")

    with monkeypatch.context() as patch:
        patch.setattr(runs, "ask_mates", end)
        assert (pointers["x"].T @ pointers["x"] + 8).shape == (3, 3)
        assert (pointers["x"].T @ pointers["x"] + 9).shape == (3, 3)
    assert [record.message for record in caplog.records] == [
        "sizes follow from rules alone, without a check on other data: it took over 30 s"
    ]
    assert (pointers["x"].T @ pointers["x"] + 10).shape == (3, 3)  # in a room of its own


@contextlib.contextmanager
def pair(directory: Path, mates: str = "on") -> Iterator[Any]:
    """A pointer to an array, in a duet of its own."""
    paths: dict[str, Any] = {"audit_path": str(directory / "audit"), "budget_path": str(directory / "budget")}
    settings = Settings(**paths, mates=mates)
    with (
        duetlink.launch(settings=settings) as owner,
        duetlink.join(str(owner.code), settings=settings) as scientist,
    ):
        x = np.random.default_rng(1).standard_normal((20, 3))
        yield Bench(owner, scientist).share(x, "x", np.zeros((20, 3)))


def test_the_room_of_the_mates_ends_where_nobody_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_constants(monkeypatch, agreement, IDLE_S=0.01)
    rooms: list[Any] = []
    opened = runs.of_mates

    async def noted(limits: Any) -> Any:
        rooms.append(await opened(limits))
        return rooms[-1]

    monkeypatch.setattr(runs, "of_mates", noted)
    with pair(tmp_path) as x:
        assert (x.T @ x).shape == (3, 3)
        while not rooms[0].has_ended:
            threading.Event().wait(0.01)
        assert (x.T @ x + 1).shape == (3, 3)
    assert len(rooms) == 2
    assert rooms[1].has_ended


def test_the_setting_turns_them_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    with pair(tmp_path, mates="off") as x:
        assert (x.T @ x).shape == (3, 3)
        with pytest.raises(np.linalg.LinAlgError):
            np.linalg.inv(x.T @ x)
    assert counted.times == 0


def test_the_setting_is_on_or_off() -> None:
    with pytest.raises(errors.SettingError, match="mates='never' is neither 'on' nor 'off'"):
        Settings(mates="never")


# -- two days ------------------------------------------------------------------------------------------------

NOTEBOOK = """
x.T @ x + 12
f.sort_values("pay").age
f[f.age > 50].columns
f.age.map(dict.fromkeys(range(1, 61), 1)).dtype
f.set_index("town").loc["Rome"]
np.linalg.inv(x.T @ x)
f.describe()
""".strip().splitlines()


def said(code: str, pointers: dict[str, Any]) -> str:
    """What a notebook shows of a statement: a value, a shape, or the type of an error."""
    try:
        made = evaluate(code, pointers)
        return str(tuple(made.shape)) if hasattr(made, "get") else str(made)
    except Exception as error:
        return type(error).__name__


def test_the_same_notebook_says_the_same_on_two_days_in_any_order(
    shared_bench: Bench, pointers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = {code: said(code, pointers) for code in NOTEBOOK}
    assert one == {
        "x.T @ x + 12": "(3, 3)",
        'f.sort_values("pay").age': "(60,)",
        "f[f.age > 50].columns": "Index(['age', 'pay', 'town'], dtype='str')",
        "f.age.map(dict.fromkeys(range(1, 61), 1)).dtype": "PrivateValue",
        'f.set_index("town").loc["Rome"]': "PrivateValue",
        "np.linalg.inv(x.T @ x)": "PrivateValue",
        "f.describe()": "(8, 2)",
    }
    agreement = life_of(shared_bench.scientist).remote_session.program().agreement
    set_constants(monkeypatch, agreement, known={})  # as a new duet begins
    assert {code: said(code, pointers) for code in reversed(NOTEBOOK)} == one
