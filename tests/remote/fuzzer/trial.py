"""One program, run on the data and on pointers to them; and a difference made short."""

from __future__ import annotations

import copy
import io
import numbers
import re
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any, Protocol

import numpy as np
import pandas as pd
import polars as pl
import sklearn
import sklearn.cluster
import sklearn.decomposition
import sklearn.linear_model
import sklearn.metrics
import sklearn.model_selection
import sklearn.preprocessing
import torch

from duetlink.duet.asking.recording.mock_used import MockUsed
from duetlink.duet.asking.recording.program import is_remote
from duetlink.duet.asking.recording.sizes import Shape
from duetlink.duet.asking.requests.pending_request import PendingRequest
from duetlink.errors import OperationRefused
from tests.remote.fuzzer import world
from tests.remote.fuzzer.desk import Desk
from tests.remote.statements import difference, is_value

_DRAWS = re.compile(r"random|rand|sample|shuffle|dropout|normal|train_test_split|permut")
_KNOWN = "same"  # names of what is the same whatever is drawn
_WORD = re.compile(r"[A-Za-z_]\w*")
_MOST_REFUSED = 8  # of one program


class Side(Protocol):
    """Where pointers are."""

    @property
    def pointers(self) -> Mapping[str, Any]: ...

    def remote(self, obj: Any) -> Any: ...

    def fetch(self, obj: Any) -> Any: ...


Open = Callable[[Iterable[str]], AbstractContextManager[Side]]  # with the objects of these names


@contextmanager
def here(names: Iterable[str], *, check_on_mocks: bool = True) -> Iterator[Side]:
    """A side without a link."""
    real, mocks = world.data(), world.mocks()
    wanted = list(names)
    desk = Desk(
        {name: real[name] for name in wanted},
        {name: mocks[name] for name in wanted},
        check_on_mocks=check_on_mocks,
    )
    try:
        yield desk
    finally:
        desk.close()


@dataclass(frozen=True)
class Difference:
    """What a program has made on pointers in silence."""

    statements: tuple[str, ...]
    name: str
    why: str

    def __str__(self) -> str:
        return "\n".join((*self.statements, f"# {self.name}: {self.why}"))


@dataclass
class Outcome:
    """Of one program."""

    difference: Difference | None = None
    refused: list[tuple[str, str]] = field(default_factory=list)  # statements, and what they raised
    compared: int = 0  # variables


class Names(dict[str, Any]):
    """The variables of a program, and what it is given beside the data."""

    def __init__(self, objects: Mapping[str, Any], remote: Callable[[Any], Any]) -> None:
        super().__init__(objects)
        self.given = {
            "np": np,
            "pd": pd,
            "pl": pl,
            "torch": torch,
            "nn": torch.nn,
            "functional": torch.nn.functional,
            "sklearn": sklearn,
            "copy": copy,
            "threading": threading,
            "remote": remote,
        }
        self.update(self.given)

    def run(self, statement: str) -> None:
        """Do it. Raises what it raises, and MockUsed where that is warned of."""
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", MockUsed)
            exec(compile(statement, "<fuzzer>", "exec"), self)

    @property
    def variables(self) -> dict[str, Any]:
        return {
            name: found
            for name, found in self.items()
            if name not in self.given
            and not name.startswith("_")
            and not isinstance(found, (ModuleType, FunctionType, type))
        }


def local(objects: Iterable[str]) -> Names:
    """The variables of a program that runs on the data."""
    real = world.data()
    names = Names({name: real[name] for name in objects}, _as_placed)
    names.given["asked"] = names["asked"] = copy.deepcopy
    return names


def far(side: Side) -> Names:
    """The variables of one that runs on pointers."""
    names = Names(side.pointers, side.remote)
    names.given["asked"] = names["asked"] = lambda pointer: pointer.request("the fuzzer")
    return names


def _as_placed(obj: Any) -> Any:
    if isinstance(obj, torch.Tensor):
        return obj.detach().clone().requires_grad_(obj.requires_grad)
    return obj.copy() if isinstance(obj, np.ndarray) else obj


class Settings:
    """What a program may leave behind in this process."""

    def __enter__(self) -> None:
        np.random.seed(1)
        torch.manual_seed(1)
        self._labels = sklearn.get_config()

    def __exit__(self, *_: object) -> None:
        torch.set_default_dtype(torch.float32)
        torch.set_grad_enabled(True)
        sklearn.set_config(**self._labels)


def run(statements: Sequence[str], opened: Open = here) -> Outcome:
    """Run a program on both sides, without the statements that are refused, and compare all variables."""
    outcome = Outcome()
    kept = list(statements)
    while True:
        with Settings():
            ours = local(world.names())
            failed = _first_error(ours, kept)
        if failed is not None:  # of what another statement made that is left out
            del kept[failed[0]]
            continue
        used = [name for name in world.names() if any(name in _WORD.findall(line) for line in kept)]
        with opened(used) as side:
            theirs = far(side)
            with Settings():
                refused = _first_error(theirs, kept)
            if refused is not None and len(outcome.refused) < _MOST_REFUSED:
                place, why = refused
                outcome.refused.append((kept.pop(place), why))
                continue
            if refused is None:
                _compare(ours, theirs, side, kept, outcome, used)
            return outcome


def _first_error(names: Names, statements: Sequence[str]) -> tuple[int, str] | None:
    for place, statement in enumerate(statements):
        try:
            names.run(statement)
        except Exception as error:
            return place, f"{type(error).__name__}: {error}"
    return None


def _compare(
    ours: Names, theirs: Names, side: Side, statements: Sequence[str], outcome: Outcome, used: Sequence[str]
) -> None:
    drawn = _drawn(statements)
    for name, mine in ours.variables.items():
        if name in world.names() and name not in used:
            continue
        if not is_value(mine):
            continue
        try:
            found = _fetched(theirs.get(name), side)
        except OperationRefused as error:  # of something that the program has done before
            outcome.refused.append((name, f"{type(error).__name__}: {error}"))
            return
        except Exception as error:  # at the owner, or of what cannot travel
            outcome.refused.append((name, f"{type(error).__name__}: {error}"))
            continue
        outcome.compared += 1
        why = _of_drawn(mine, found) if name in drawn else difference(_plain(mine), _plain(found))
        if why:
            outcome.difference = Difference(tuple(statements), name, why)
            return


def _drawn(statements: Sequence[str]) -> set[str]:
    """The names that may have to do with random numbers: all that a statement names together with one."""
    words = [set(_WORD.findall(statement)) for statement in statements]
    objects = set(world.names())
    found: set[str] = set()
    for statement, named in zip(statements, words, strict=True):
        if _DRAWS.search(statement):
            found |= named - objects
    while True:
        more = set().union(*(named - objects for named in words if named & found)) | found
        if more == found:
            return {name for name in found if not name.startswith(_KNOWN)}
        found = more


def _of_drawn(mine: Any, found: Any) -> str:
    """Whether what was drawn differs in type or shape."""
    if isinstance(mine, numbers.Number) and isinstance(found, numbers.Number):
        return ""
    if type(mine) is not type(found):
        return f"it is a {type(found).__name__}, here a {type(mine).__name__}"
    has_labels = hasattr(mine, "iloc")  # which are drawn as well: a label that is set may be a new row
    if not has_labels and getattr(mine, "shape", None) != getattr(found, "shape", None):
        return f"shape {found.shape}, here {mine.shape}"
    return ""


def _plain(obj: Any) -> Any:
    """An array of pandas' own as an index, which can be compared."""
    return pd.Index(obj) if isinstance(obj, pd.api.extensions.ExtensionArray) else obj


def _fetched(obj: Any, side: Side) -> Any:
    if isinstance(obj, PendingRequest):
        return obj.result(20)
    if is_remote(obj) or isinstance(obj, torch.nn.Module):
        return side.fetch(obj)
    if isinstance(obj, Shape):
        return tuple(obj)
    if type(obj) in (list, tuple):
        return type(obj)(_fetched(part, side) for part in obj)
    if isinstance(obj, tuple):  # a named one
        return tuple(_fetched(part, side) for part in obj)
    if type(obj) is dict:
        return {_fetched(key, side): _fetched(part, side) for key, part in obj.items()}
    return obj


def shrunk(found: Difference, opened: Open = here) -> Difference:
    """The same without the statements that it does not need, one after another."""
    again = True
    while again:
        again = False
        for place in reversed(range(len(found.statements))):
            fewer = (*found.statements[:place], *found.statements[place + 1 :])
            differs = run(fewer, opened).difference
            if differs is not None:
                found, again = differs, True
                break
    return found
