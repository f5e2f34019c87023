"""Draws a program: statements whose variables there are, of the kinds that they need."""

from __future__ import annotations

import numbers
import random
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import torch

from tests.remote.fuzzer.grammar import LIBRARIES, PYTHON
from tests.remote.fuzzer.trial import Settings, local

_HOLE = re.compile(r"\{([^{}'\n: ]*)\}")
_STATEMENTS = range(5, 13)
_MOST_TRIES = 60
_OF_PYTHON = 0.3  # of the statements; the others are of the program's libraries
_LATEST = 0.6  # how often the newest variable of a kind is taken, so that statements build upon each other
_BEGIN = {
    "numpy": ("a = x.copy()", "b = X.copy()"),
    "pandas": ("a = f.copy()", "b = f.pay.copy()"),
    "polars": ("a = p.clone()", "b = p['pay'] * 1"),
    "torch": ("a = t.clone()", "b = T.clone()"),
    "sklearn": (),
}
_OBJECTS = {
    "numpy": ("x", "X", "k"),
    "pandas": ("f", "g", "s"),
    "polars": ("p",),
    "torch": ("t", "T"),
    "sklearn": ("x", "X", "k", "y"),
}
_WORDS = {
    "op": ("+", "-", "*", "/"),
    "iop": ("+=", "-=", "*="),
    "[]": ("1:", ":2", "::2", "-3:", ":"),
    "at": ("0", "1", "2", "-1"),
    "#": ("2", "0.5", "3.0", "10", "-1.5"),
    "01": ("0", "1"),
    "digit": ("0", "3", "7"),
    "age": ("17", "30", "60"),
    "town": ("Ulm", "Bonn", "Jena"),
    "label": ("u", "v", "w", "z"),
    "many": ("20", "40"),
    "optimiser": ("SGD", "Adam"),
}


def program(seed: int, libraries: Sequence[str] = tuple(LIBRARIES)) -> list[str]:
    """The program of a seed, in these libraries: the same each time."""
    drawer = random.Random(f"{seed}")
    chosen = drawer.sample(libraries, min(len(libraries), drawer.choice((1, 1, 1, 2))))
    with Settings():
        return _Drawing(drawer, chosen).statements


class _Drawing:
    def __init__(self, drawer: random.Random, libraries: Sequence[str]) -> None:
        self._drawer = drawer
        self._names = local([name for library in libraries for name in _OBJECTS[library]])
        self._count = 0
        self._templates = [template for name in libraries for template in LIBRARIES[name]]
        self.statements: list[str] = []
        for name in libraries:
            for statement in _BEGIN[name]:
                self._keep(statement)
        wanted = drawer.choice(_STATEMENTS) + len(self.statements)
        for _ in range(_MOST_TRIES):
            if len(self.statements) >= wanted:
                break
            of_python = drawer.random() < _OF_PYTHON
            templates = PYTHON if of_python else self._templates
            # those of several lines make the state that others meet, such as a model in training
            lines = [1 + template.count("\n") for template in templates]
            filled = self._filled(drawer.choices(templates, lines)[0])
            if filled is not None:
                self._keep(filled)

    def _keep(self, statement: str) -> None:
        """What works on the data is a statement of the program."""
        try:
            self._names.run(statement)
        except Exception:
            return
        self.statements.append(statement)

    def _filled(self, template: str) -> str | None:
        """A statement; None: there is no variable of a kind that it needs."""
        kinds: dict[str, list[str]] = {"*": []}
        for name, value in self._names.variables.items():
            kinds.setdefault(kind_of(value), []).append(name)
            kinds["*"].append(name)
        new = ""
        chosen: list[str] = []
        words: dict[str, str] = {}

        def fill(match: re.Match[str]) -> str:
            nonlocal new
            hole = match[1]
            if hole == "=":
                if not new:
                    self._count += 1
                    new = f"v{self._count}"
                return new
            if hole == "0":
                return chosen[0]
            if not hole:
                return "{}"
            if hole in _WORDS and hole != "#":
                return words.setdefault(hole, self._drawer.choice(_WORDS[hole]))
            wanted = hole.split("|")
            if "#" in wanted and (len(wanted) == 1 or self._drawer.random() < 0.5):
                return self._drawer.choice(_WORDS["#"])
            names = [name for kind in wanted for name in kinds.get(kind, ())]
            if not names:
                raise LookupError(hole)
            if self._drawer.random() < _LATEST:
                names = names[-3:]
            chosen.append(self._drawer.choice(names))
            return chosen[-1]

        try:
            return _HOLE.sub(fill, template)
        except LookupError:
            return None


def kind_of(value: Any) -> str:
    """The letter of the grammar."""
    if isinstance(value, np.ndarray):
        of_floats = {1: "v", 2: "m"}.get(value.ndim, "")
        return {"f": of_floats, "i": "i", "b": "b"}.get(value.dtype.kind, "")
    if isinstance(value, torch.Tensor):
        if not value.dtype.is_floating_point:
            return "j"
        return {0: "z", 1: "t", 2: "u"}.get(value.ndim, "")
    if isinstance(value, pd.Series):
        return "s" if value.dtype.kind in "iuf" else "w" if value.dtype == "str" else ""
    if isinstance(value, pd.DataFrame):
        return "f" if "town" in value else "g" if list(value.columns) == ["a", "b"] else ""
    if isinstance(value, pl.DataFrame):
        return "p"
    if isinstance(value, pl.Series):
        return "q" if value.dtype.is_numeric() else ""
    if isinstance(value, bool | np.bool_):
        return ""
    if isinstance(value, numbers.Number):
        return "n"
    return "l" if isinstance(value, list) else "c" if isinstance(value, str) else ""
