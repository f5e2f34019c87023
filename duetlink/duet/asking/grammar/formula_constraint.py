"""Hypotheses on the parameters of a model, `x = 2 * z, Intercept = 1`, read into a matrix and its right side.

The grammar is patsy's (*Linear constraints* in its documentation): names of parameters, numbers, `+ - * /`,
parentheses, `=`, and commas between hypotheses.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from duetlink.errors import OperationRefused

if TYPE_CHECKING:
    import numpy as np

MAX_TEXT = 10_000  # characters
MAX_DEPTH = 50  # of parentheses and signs
_MOST_TOKENS = 2_000
_NUMBER = r"[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]{1,3})?"


class _Linear(NamedTuple):
    """A sum of parameters, each with a factor, and a number."""

    factors: dict[str, float]
    number: float

    def times(self, factor: float) -> _Linear:
        return _Linear({name: value * factor for name, value in self.factors.items()}, self.number * factor)

    def plus(self, other: _Linear) -> _Linear:
        factors = dict(self.factors)
        for name, value in other.factors.items():
            factors[name] = factors.get(name, 0.0) + value
        return _Linear(factors, self.number + other.number)


def constraints(text: str | Sequence[str], names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """One row for each hypothesis, float64 of shape (hypotheses, parameters), and what each row amounts to.

    Raises:
        OperationRefused: the text is no hypothesis on these parameters; the message says where.
    """
    import numpy as np

    joined = text if isinstance(text, str) else ", ".join(text)
    reader = _Reader(joined, names)
    rows = reader.all()
    matrix = np.zeros((len(rows), len(names)))
    for row, linear in enumerate(rows):
        for name, factor in linear.factors.items():
            matrix[row, list(names).index(name)] = factor
    return matrix, np.array([0.0 - linear.number for linear in rows])


class _Reader:
    def __init__(self, text: str, names: Sequence[str]) -> None:
        if len(text) > MAX_TEXT:
            raise OperationRefused(f"hypotheses of {len(text):,} characters are over {MAX_TEXT:,}")
        known = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
        parts = re.compile(rf"\s*(?:([()=,*/+-])|({known})|({_NUMBER}))")
        self._text = text
        self._names = names
        self._tokens: list[str] = []
        self._at = self._depth = 0
        at, end = 0, len(text.rstrip())
        while at < end:
            found = parts.match(text, at)
            if found is None:
                raise self._refusal(text[at : at + 20])
            self._tokens.append(found[0].strip())
            at = found.end()

    def all(self) -> list[_Linear]:
        """What is to be zero, for each hypothesis."""
        rows = self._several()
        if self._at < len(self._tokens):
            raise self._refusal(self._tokens[self._at])
        return rows

    def _several(self) -> list[_Linear]:
        rows = self._one()
        while self._taken(","):
            rows += self._one()
        return rows

    def _one(self) -> list[_Linear]:
        if self._is_enclosed():
            self._at += 1
            rows = self._several()
            self._at += 1
            return rows
        sides = [self._sum()]
        while self._taken("="):
            sides.append(self._sum())
        if len(sides) == 1:
            sides.append(_Linear({}, 0.0))
        rows = [left.plus(right.times(-1.0)) for left, right in itertools.pairwise(sides)]
        if not all(any(row.factors.values()) for row in rows):
            raise OperationRefused(f"{self._text!r}: a hypothesis has no parameter in it")
        return rows

    def _is_enclosed(self) -> bool:
        """Whether hypotheses stand in parentheses here, and not the beginning of a sum."""
        depth = 0
        if self._tokens[self._at : self._at + 1] != ["("]:
            return False
        for at, token in enumerate(self._tokens[self._at : self._at + _MOST_TOKENS], self._at):
            depth += (token == "(") - (token == ")")
            if depth == 0:
                inside = self._tokens[self._at : at]
                after = self._tokens[at + 1 : at + 2]
                if inside and {"=", ","} & set(inside) and after in ([], [","], [")"]):
                    self._depth += 1
                    if self._depth > MAX_DEPTH:
                        raise OperationRefused(f"hypotheses have at most {MAX_DEPTH} parentheses")
                    return True
                return False
        return False

    def _refusal(self, where: str) -> OperationRefused:
        shown = ", ".join(map(repr, self._names[:20]))
        return OperationRefused(f"{self._text[:200]!r} is no hypothesis at {where!r}; parameters are {shown}")

    def _taken(self, *signs: str) -> str:
        if self._at < len(self._tokens) and self._tokens[self._at] in signs:
            self._at += 1
            return self._tokens[self._at - 1]
        return ""

    def _sum(self) -> _Linear:
        made = self._product()
        while sign := self._taken("+", "-"):
            made = made.plus(self._product().times(1.0 if sign == "+" else -1.0))
        return made

    def _product(self) -> _Linear:
        made = self._operand()
        while sign := self._taken("*", "/"):
            other = self._operand()
            if sign == "*" and made.factors and other.factors:
                raise OperationRefused(f"{self._text!r}: a product of two parameters is not linear")
            if sign == "/" and (other.factors or not other.number):
                raise OperationRefused(f"{self._text!r}: only numbers divide, and not zero")
            if sign == "/":
                made = made.times(1.0 / other.number)
            else:
                made = other.times(made.number) if other.factors else made.times(other.number)
        return made

    def _operand(self) -> _Linear:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise OperationRefused(f"hypotheses have at most {MAX_DEPTH} parentheses within each other")
        try:
            if sign := self._taken("+", "-"):
                return self._product().times(1.0 if sign == "+" else -1.0)
            if self._taken("("):
                made = self._sum()
                if not self._taken(")"):
                    raise self._refusal(" ".join(self._tokens[self._at : self._at + 1]) or "its end")
                return made
            if self._at == len(self._tokens) or self._tokens[self._at] in "=,*/)":
                raise self._refusal(" ".join(self._tokens[self._at : self._at + 1]) or "its end")
            token = self._tokens[self._at]
            self._at += 1
            return _Linear({token: 1.0}, 0.0) if token in self._names else _Linear({}, float(token))
        finally:
            self._depth -= 1
