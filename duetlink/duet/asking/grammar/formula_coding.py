"""How factors with levels become columns of numbers: contrasts, and which of them a term needs.

The rules are patsy's, so that columns have the same numbers, names and order: *Coding categorical data* in
its documentation, after J. M. Chambers, T. J. Hastie, *Statistical Models in S*, 1992, §2.4.1.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from duetlink.duet.asking.grammar.formula_text import Term
from duetlink.errors import OperationRefused

if TYPE_CHECKING:
    import numpy as np

KINDS = ("Treatment", "Sum", "Helmert", "Diff", "Poly")


class Contrast(NamedTuple):
    """One of KINDS; `option` is the level that is left out, or Poly's scores."""

    kind: str = "Treatment"
    option: Any = None


class Coding(NamedTuple):
    """A column for each suffix, with a row for each level."""

    matrix: np.ndarray
    suffixes: tuple[str, ...]


def coding(contrast: Contrast, levels: Sequence[Any], *, whole: bool) -> Coding:
    """The columns for levels; `whole` spans the intercept as well. Raises OperationRefused: a level that is
    left out is none of them, or there are not as many scores.
    """
    import numpy as np

    count = len(levels)
    kind, option = contrast
    if kind == "Treatment":
        if whole:
            return Coding(np.eye(count), _named("", levels))
        place = 0 if option is None else _place(levels, option)
        rest = [index for index in range(count) if index != place]
        return Coding(np.eye(count)[:, rest], _named("T.", [levels[index] for index in rest]))
    if kind == "Poly":
        matrix, suffixes = _polynomials(levels, option)
        return Coding(matrix, suffixes) if whole else Coding(matrix[:, 1:], suffixes[1:])
    if kind == "Sum":
        place = count - 1 if option is None else _place(levels, option)
        rest = [index for index in range(count) if index != place]
        matrix = np.eye(count)[:, rest]
        matrix[place] = -1
        suffixes = _named("S.", [levels[index] for index in rest])
        first = "[mean]"
    elif kind == "Helmert":
        matrix = np.zeros((count, count - 1))
        matrix[1:][np.diag_indices(count - 1)] = np.arange(1, count)
        matrix[np.triu_indices(count - 1)] = -1
        suffixes = _named("H.", levels[1:])
        first = "[H.intercept]"
    else:
        matrix = np.where(
            np.arange(count)[:, None] <= np.arange(count - 1),
            np.arange(1, count) - count,
            np.arange(1, count),
        )
        matrix = matrix / float(count)
        suffixes = _named("D.", levels[:-1])
        if whole:
            return Coding(np.column_stack((np.ones(count), matrix)), _named("D.", levels))
        return Coding(matrix, suffixes)
    if whole:
        return Coding(np.column_stack((np.ones(count), matrix)), (first, *suffixes))
    return Coding(matrix, suffixes)


def _named(prefix: str, levels: Sequence[Any]) -> tuple[str, ...]:
    return tuple(f"[{prefix}{level if isinstance(level, str) else repr(level)}]" for level in levels)


def _place(levels: Sequence[Any], level: Any) -> int:
    """The index of a level, which may be given as that index."""
    if level in levels:
        return levels.index(level)
    if type(level) is int and -len(levels) <= level < len(levels):
        return level % len(levels)
    raise OperationRefused(f"{level!r} is none of the levels {list(levels)[:20]!r}")


def _polynomials(levels: Sequence[Any], scores: Any) -> tuple[np.ndarray, tuple[str, ...]]:
    import numpy as np

    count = len(levels)
    points = np.asarray(range(count) if scores is None else scores, dtype=float)
    if points.shape != (count,):
        raise OperationRefused(f"Poly has {points.size} scores for {count} levels")
    points = points - points.mean()
    matrix, upper = np.linalg.qr(points[:, None] ** np.arange(count))
    matrix = matrix * np.sign(np.diag(upper))
    matrix = matrix / np.sqrt(np.sum(matrix**2, axis=1))
    matrix[:, 0] = 1
    names = (".Constant", ".Linear", ".Quadratic", ".Cubic", *(f"^{power}" for power in range(4, count)))
    return matrix, names[:count]


# -- which coding a term needs -----------------------------------------------------------------------------


class Subterm(NamedTuple):
    """The factors of a term that are multiplied, and of those with levels whether they are coded whole."""

    factors: Term
    whole: Mapping[str, bool]


def subterms(terms: Iterable[Term], numeric: Iterable[str]) -> list[Subterm]:
    """What is to be built for terms, in the order of the columns, so that nothing is there twice.

    Terms stand together that have the same numeric factors, those without any first, and by their number of
    factors within. Of each the subsets of its other factors are taken that were not there before, and
    collapsed to as few as possible.
    """
    numbers = frozenset(numeric)
    groups: dict[frozenset[str], list[Term]] = {}
    for term in terms:
        groups.setdefault(numbers.intersection(term), []).append(term)
    made: list[Subterm] = []
    for group in sorted(groups, key=bool):  # stable
        used: set[frozenset[str]] = set()
        for term in sorted(groups[group], key=len):
            wanted = _subsets([factor for factor in term if factor not in numbers])
            wanted = [subset for subset in wanted if subset not in used]
            used.update(wanted)
            for chosen in _collapsed(wanted):
                factors = tuple(factor for factor in term if factor in numbers or factor in chosen)
                made.append(Subterm(factors, chosen))
    return made


def _subsets(factors: Sequence[str]) -> list[frozenset[str]]:
    """All of them, the smaller ones first, in the order of the factors."""
    sizes = range(len(factors) + 1)
    return [frozenset(chosen) for size in sizes for chosen in itertools.combinations(factors, size)]


def _collapsed(subsets: Sequence[frozenset[str]]) -> list[dict[str, bool]]:
    """Pairs of which one has a factor more, which is then coded whole, are joined, from left to right."""
    found = [dict.fromkeys(subset, False) for subset in subsets]
    while _collapse(found):
        pass
    return found


def _collapse(found: list[dict[str, bool]]) -> bool:
    for at, short in enumerate(found):
        for other, long in enumerate(found[at + 1 :], at + 1):
            if len(long) == len(short) + 1 and short.items() <= long.items():
                (more,) = long.keys() - short.keys()
                found[other] = {**short, more: True}
                found.pop(at)
                return True
    return False
