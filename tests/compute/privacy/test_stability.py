"""What row_stable promises, tried out: with one row more in the asset, every column that it accepts has one
row more at most, and the others are the same to the last bit. It fails for both or for neither.
"""

from __future__ import annotations

import contextlib
import random
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from duetlink.compute.operations.allow_lists.allowed import Allowed
from duetlink.compute.privacy import rowwise
from duetlink.compute.privacy.lineage import Route, row_stable
from duetlink.compute.privacy.table import (
    NUMPY,
    PANDAS,
    POLARS,
    TORCH,
    Column,
    Matrix,
    PrivateTable,
    Table,
    table_of,
)
from tests.compute.privacy.programs import Const, Program, Ref, run

FLOATS = (0.0, -0.0, 1.5, -2.25, 18.0, 1e-310, 3.4e38, -1e300, 1e308, np.inf, -np.inf, np.nan, 1 / 3)
INTS = (0, 1, -1, 3, 18, 2**53 + 1, 2**63 - 1, -(2**63))
NARROWS = (0, 1, -1, 127, -128)
TEXTS = ("", "Ulm", "Bonn", "ä")
CONSTANTS = (0, 1, 2, 3, -2, 2**62, 0.5, 2.0, -1e30, 1e37, True, "Ulm", "Trier", "float64", "int64", None)
CASTS = ("numpy.float64", "numpy.int64", "polars.Float64", "polars.Int64", "torch.float64", "torch.int64")

Data = dict[str, list[Any]]

# beside the rules: what must not be accepted, or only in some forms
OTHERS = [
    "operator.getitem",
    ".sum",
    ".mean",
    ".cumsum",
    ".sort_values",
    ".sort",
    ".head",
    ".tail",
    ".shift",
    ".rank",
    ".filter",
    ".dropna",
    ".drop_nulls",
    ".drop_nans",
    ".unique",
    ".reset_index",
    ".sample",
    ".fillna",
    ".where",
    ".mask",
    ".pow",
    ".floordiv",
    ".median",
    ".max",
    ".argsort",
    ".to_list",
    "numpy.sort",
    "numpy.cumsum",
    "numpy.flip",
    "numpy.unique",
    "numpy.log",
    "numpy.power",
    "numpy.concatenate",
    "numpy.diff",
    "torch.cumsum",
    "torch.flip",
    "torch.sum",
    "torch.exp",
    ".flip",
    ".view",
    ".reshape",
    ".ravel",
    ".repeat",
    ".T",
    ".get_column",
    ".interpolate",
    ".rolling",
    ".expanding",
    ".groupby",
    ".explode",
    ".nlargest",
    ".value_counts",
    ".diff",
    ".pct_change",
    ".ffill",
    ".duplicated",
    ".reverse",
]


def some_data(chance: random.Random, rows: int) -> Data:
    def column(items: Sequence[Any]) -> list[Any]:
        return [chance.choice(items) for _ in range(rows)]

    return {
        "x": [chance.choice((*FLOATS, chance.uniform(-100, 100))) for _ in range(rows)],
        "y": [chance.uniform(-1e3, 1e3) for _ in range(rows)],
        "n": [chance.choice((*INTS, chance.randint(-100, 100))) for _ in range(rows)],
        "b": column((True, False)),
        "s": column(NARROWS),
        "t": column((*TEXTS, None)),
        "holes": [[chance.random() < 0.2 for _ in range(6)] for _ in range(rows)],
        "label": column((0.0, 1.0, np.nan)),
    }


def with_row(chance: random.Random, data: Data) -> Data:
    place = chance.randint(0, len(data["x"]))
    row = some_data(chance, 1)
    return {name: [*items[:place], *row[name], *items[place:]] for name, items in data.items()}


def frame_of(library: str, data: Data) -> dict[str, Any]:
    """The assets that hold some data."""
    if library == PANDAS:
        columns = {
            "x": np.array(data["x"], dtype=np.float64),
            "y": np.array(data["y"], dtype=np.float32),
            "n": np.array(data["n"], dtype=np.int64),
            "b": np.array(data["b"], dtype=np.bool_),
            "s": np.array(data["s"], dtype=np.int8),
            "t": pd.array(data["t"], dtype="str"),
            "c": pd.Categorical(data["t"], categories=list(TEXTS)),
        }
        frame = pd.DataFrame(columns, index=pd.Index(data["label"], dtype=np.float64))
        frame["o"] = pd.Series(data["t"], dtype=object, index=frame.index)
        return {"frame": frame}
    if library == POLARS:
        types = {
            "x": pl.Float64,
            "y": pl.Float32,
            "n": pl.Int64,
            "b": pl.Boolean,
            "s": pl.Int8,
            "t": pl.String,
        }
        holes = {
            name: [None if row[place] else item for item, row in zip(data[name], data["holes"], strict=True)]
            for place, name in enumerate(types)
        }
        return {"frame": pl.DataFrame(holes, schema=types)}
    dtypes = {"x": np.float64, "y": np.float32, "n": np.int64, "b": np.bool_, "s": np.int8}
    arrays: dict[str, Any] = {name: np.array(data[name], dtype=dtype) for name, dtype in dtypes.items()}
    pairs = zip(data["y"], data["x"], strict=True)
    arrays["m"] = np.array([*pairs], dtype=np.float64).reshape(-1, 2)
    if library == TORCH:
        arrays = {name: torch.from_numpy(array) for name, array in arrays.items()}
    return arrays


def exact(column: Any, signless: bool) -> list[Any]:
    """Items that are equal when they are the same to the last bit, but for NaN, and for -0 if `signless`."""
    items = column.to_list() if isinstance(column, pl.Series) else column.tolist()
    if signless:
        items = [item + 0.0 if isinstance(item, float) else item for item in items]
    return [
        struct.pack("d", item) if isinstance(item, float) and item == item else str(item) for item in items
    ]


def kind_of(column: Any) -> str:
    table = table_of(column)
    assert isinstance(table, Column)
    return table.kind


def is_one_more(fewer: list[Any], more: list[Any]) -> bool:
    if fewer == more:
        return True
    return len(more) == len(fewer) + 1 and any(
        more[:place] + more[place + 1 :] == fewer for place in range(len(more))
    )


class Scientist:
    """Tries operations on what it has, and keeps what is accepted."""

    def __init__(self, library: str, allowed: Allowed, chance: random.Random) -> None:
        self.library, self.allowed, self.chance = library, allowed, chance
        self.program = Program()
        self.known: dict[Ref, Table] = {}
        assets = frame_of(library, some_data(chance, 2))
        # neighbours differ in one row of one table: arrays that are shared each by itself are no table
        name = chance.choice(sorted(assets))
        self.schemas = {(name, 1): table_of(assets[name])}
        self.known[self.program.asset(name, 1)] = self.schemas[name, 1]
        self.routes: dict[Ref, Route] = {}

    def columns(self) -> None:
        """Take every column there is."""
        for ref, table in list(self.known.items()):
            if isinstance(table, PrivateTable):
                for name in table.columns:
                    self.try_out("operator.getitem", ref, name)
            elif isinstance(table, Matrix):
                for place in range(table.width):
                    self.try_out("operator.getitem", ref, (slice(None), place))

    def try_out(self, operation: str, *arguments: Any, **keywords: Any) -> bool:
        """Whether it was accepted."""
        ref = self.program.do(operation, *arguments, **keywords)
        found = row_stable(self.program.steps, ref.id, self.allowed, self.schemas)
        if isinstance(found, Route):
            self.known[ref], self.routes[ref] = found.column, found
            return True
        table = "makes a whole table" in found.words
        if table and operation in ("operator.getitem", ".filter", ".dropna", ".drop_nulls"):
            with contextlib.suppress(Exception):  # some fail for all data
                self.known[ref] = self._table_of(ref)
                return True
        self.program.steps.pop()
        return False

    def _table_of(self, ref: Ref) -> Table:
        assets = {name: self._empty(name) for name, _ in self.schemas}
        return table_of(run(self.program.steps, assets)[ref.id])

    def _empty(self, name: str) -> Any:
        return frame_of(self.library, some_data(random.Random(0), 0))[name]

    def anything(self, operation: str, tries: int = 5) -> bool:
        """Whether it was accepted with anything that is there, in a few tries."""
        chance = self.chance
        things: list[Any] = [*self.known, *self.known, *CONSTANTS, [1, 2], ["Ulm"], "x", "n"]
        things += [slice(0, 3), Const(chance.choice(CASTS))]
        for _ in range(tries):
            arguments = [chance.choice(list(self.known))]
            arguments += [chance.choice(things) for _ in range(chance.choice((0, 0, 1, 1, 1, 2, 2)))]
            if not operation.startswith(".") and chance.random() < 0.3:
                chance.shuffle(arguments)
            keywords = {}
            if chance.random() < 0.05:
                name = chance.choice(("upper", "max", "decimals", "upper_bound", "out", "limit"))
                keywords[name] = chance.choice(things)
            if self.try_out(operation, *arguments, **keywords):
                return True
        return False


def operations(library: str) -> list[str]:
    inexact = {"operator.floordiv", "operator.mod"} if library in (POLARS, TORCH) else set()
    lists = Allowed.installed()
    members = {f".{name}" for class_ in lists.classes for name in lists.names(class_)}
    listed = members.union(function.name for function in lists.functions()) - inexact
    return sorted(name for name in listed if rowwise.rule_of(name, library) is not None)


def outcome(route: Route, library: str, data: Data) -> Any:
    """The column, or why there is none."""
    try:
        with np.errstate(all="ignore"):
            return run(route.steps, frame_of(library, data))[route.target]
    except BaseException as error:  # a panic of polars is none
        return error


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("library", [NUMPY, PANDAS, POLARS, TORCH])
@pytest.mark.parametrize("seed", range(2))
def test_a_row_more_is_a_row_more_at_most(library: str, seed: int, allowed: Allowed) -> None:
    chance = random.Random(f"{library} {seed}")
    known = operations(library)
    ran: set[str] = set()
    for _ in range(6 if library == PANDAS else 20):
        scientist = Scientist(library, allowed, chance)
        scientist.columns()
        for _ in range(30):
            scientist.anything(chance.choice((chance.choice(known), chance.choice(OTHERS))))
        for rows in (0, 1, chance.randint(2, 12), chance.randint(13, 150)):
            data = some_data(chance, rows)
            neighbour = with_row(chance, data)
            for route in scientist.routes.values():
                before, after = outcome(route, library, data), outcome(route, library, neighbour)
                words = [(step.operation, step.arguments, step.keywords) for step in route.steps]
                assert type(before) is type(after), (words, before, after)
                if isinstance(before, BaseException):
                    continue
                assert kind_of(before) == kind_of(after) == route.column.kind, words
                signless = route.column.signless
                assert is_one_more(exact(before, signless), exact(after, signless)), (words, before, after)
                ran.add(route.steps[-1].operation)
    assert len(ran) > 10


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("library", [NUMPY, PANDAS, POLARS, TORCH])
def test_every_rule_is_of_some_use(library: str, allowed: Allowed) -> None:
    """Every operation that there is a rule for is in the lists, is accepted in some form, and then works."""
    chance = random.Random(library)
    data = some_data(chance, 20)
    missing = []
    for operation in operations(library):
        for _ in range(60):
            scientist = Scientist(library, allowed, chance)
            scientist.columns()
            for _ in range(12):
                scientist.anything(operation)
            routes = [route for route in scientist.routes.values() if route.steps[-1].operation == operation]
            if any(not isinstance(outcome(route, library, data), BaseException) for route in routes):
                break
        else:
            missing.append(operation)
    assert missing == []
