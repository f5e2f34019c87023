"""Builds the matrices of a formula from a pointer's columns, by operations of the allow-lists.

Rows with a missing factor are dropped, as in patsy. Levels are looked up so that an unknown level in the real
data fails at the owner instead of being coded as zeros.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Mapping
from functools import reduce
from typing import Any, NamedTuple

from duetlink.duet.asking.grammar.formula_coding import Coding, Subterm, coding, subterms
from duetlink.duet.asking.grammar.formula_factor import Factors, Levels, Memory
from duetlink.duet.asking.grammar.formula_text import Term, parsed
from duetlink.duet.asking.grammar.syntax_tree import placed
from duetlink.duet.asking.recording.program import Program
from duetlink.errors import OperationRefused

MAX_COLUMNS = 2_000


class Matrices(NamedTuple):
    """Pointers to the frames of both sides.

    `left` is None if the formula has no left side. `keep` is a pointer to the mask of the rows that were
    kept, or None if all were.
    """

    left: Any
    right: Any
    keep: Any


class Design:
    """A formula that is applied to the frame of the fit, and later in the same way to other frames."""

    def __init__(self, program: Program, text: str, variables: Mapping[str, Any]) -> None:
        """Parse a formula. Raises OperationRefused if it is invalid."""
        self._program = program
        self._formula = parsed(text)
        self._variables = variables
        self._memory = Memory()
        self.has_left = bool(self._formula.left)

    def matrices(self, frame: Any, *, drop: bool = True, left: bool = True, right: bool = True) -> Matrices:
        """Build the matrices of both sides for `frame`.

        With `drop`, rows in which a factor of either side is missing are dropped. Raises like
        Factors.column.
        """
        formula = self._formula
        sides = formula.left * left + formula.right * right
        names = dict.fromkeys(factor for term in sides for factor in term)
        factors = Factors(self._program, frame, self._variables, self._memory)
        columns = {name: factors.column(name) for name in names}
        self._memory.filled = True
        keep = self._kept(columns) if drop else None
        index = frame.index
        if keep is not None:
            index = index[keep]
            columns = {name: _rows(column, keep) for name, column in columns.items()}
        return Matrices(
            self._matrix(formula.left, columns, index) if left and formula.left else None,
            self._matrix(formula.right, columns, index) if right else None,
            keep,
        )

    def _kept(self, columns: Mapping[str, Any]) -> Any:
        missing = []
        for column in columns.values():
            values = column.column if isinstance(column, Levels) else column
            if values.dtype.kind not in "iub":
                missing.append(values.isna())
        return ~reduce(operator.or_, missing) if missing else None

    def _matrix(self, terms: tuple[Term, ...], columns: Mapping[str, Any], index: Any) -> Any:
        numeric = [name for name, column in columns.items() if not isinstance(column, Levels)]
        made: dict[str, Any] = {}
        looked_up: dict[tuple[str, bool], tuple[Coding, Any]] = {}
        for subterm in subterms(terms, numeric):
            self._add(made, subterm, columns, looked_up)
        if not made:
            raise OperationRefused("one side of the formula makes no column")
        import pandas as pd

        return self._program.call("pandas.DataFrame", pd.DataFrame, (made,), {"index": index})

    def _add(
        self,
        made: dict[str, Any],
        subterm: Subterm,
        columns: Mapping[str, Any],
        looked_up: dict[tuple[str, bool], tuple[Coding, Any]],
    ) -> None:
        """Add the columns of a subterm to `made`; those of the first factor vary fastest."""
        choices: list[list[tuple[str, Any]]] = []
        for name in subterm.factors:
            column = columns[name]
            if not isinstance(column, Levels):
                choices.append([(name, column.astype(float))])
                continue
            key = name, subterm.whole[name]
            if key not in looked_up:
                looked_up[key] = self._coded(column, key[1])
            coded, found = looked_up[key]
            choices.append(
                [
                    (f"{name}{suffix}", lambda found=found, at=at: found(at))
                    for at, suffix in enumerate(coded.suffixes)
                ]
            )
        if len(made) + _product(map(len, choices)) > MAX_COLUMNS:
            raise OperationRefused(f"a formula makes at most {MAX_COLUMNS:,} columns")
        for combination in itertools.product(*reversed(choices)):
            parts = combination[::-1]
            values = [
                value() if callable(value) and not hasattr(value, "mock") else value for _, value in parts
            ]
            made[":".join(name for name, _ in parts) or "Intercept"] = (
                reduce(operator.mul, values) if values else 1.0
            )

    def _coded(self, column: Levels, whole: bool) -> tuple[Coding, Any]:
        """Return the coding of a factor, and a function that returns its column of that number."""
        import pandas as pd

        assert column.levels is not None
        coded = coding(column.contrast, column.levels, whole=whole)
        if column.column.dtype.kind == "b":
            number = column.column.astype(float)

            def by_number(at: int) -> Any:
                low, high = map(float, coded.matrix[:, at])
                return number if (low, high) == (0.0, 1.0) else number * (high - low) + low

            return coded, by_number
        table = pd.DataFrame(coded.matrix, index=pd.Index(column.levels))
        rows = placed(self._program, table).loc[self._labels(column)]
        return coded, lambda at: rows[at].to_numpy()

    def _labels(self, column: Levels) -> Any:
        """Return the level of each row. A mock with other values gets valid levels instead."""
        values, mock = column.column, column.column.mock
        assert column.levels is not None
        if not set(mock.tolist()) <= set(column.levels):
            import pandas as pd

            items = list(itertools.islice(itertools.cycle(column.levels), len(mock)))
            stand_in = pd.Series(items, index=mock.index, name=mock.name)
            self._program.has_stand_ins = True
            values = self._program.record_result(
                ".copy", [self._program.encode(values)], {}, stand_in, values._hidden
            )
        return values.to_numpy()


def _rows(column: Any, keep: Any) -> Any:
    return column._replace(column=column.column[keep]) if isinstance(column, Levels) else column[keep]


def _product(counts: Any) -> int:
    return reduce(operator.mul, counts, 1)
