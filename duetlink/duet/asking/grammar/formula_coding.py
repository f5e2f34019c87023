"""Codes categorical factors as columns of numbers: contrasts, and the choice of the coding for each term.

The rules are patsy's, so that columns have the same numbers, names and order: *Coding categorical data* in
its documentation, after J. M. Chambers, T. J. Hastie, *Statistical Models in S*, 1992, §2.4.1.
"""

from __future__ import annotations

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
    """A coding matrix of shape (levels, columns), and the suffix of each column's name."""

    matrix: np.ndarray
    suffixes: tuple[str, ...]


def coding(contrast: Contrast, levels: Sequence[Any], *, whole: bool) -> Coding:
    """Return the coding of `levels`. With `whole` its columns span the intercept as well.

    Raises:
        OperationRefused: the level to leave out does not exist, or the number of scores is wrong.
    """
    import patsy

    try:
        kind = getattr(patsy, contrast.kind)
        made = kind() if contrast.option is None else kind(contrast.option)
        found = made.code_with_intercept(levels) if whole else made.code_without_intercept(levels)
    except Exception as error:  # raised by patsy, or by NumPy for invalid scores
        raise OperationRefused(f"{contrast.kind} of the levels {list(levels)[:20]!r}: {error}") from None
    return Coding(found.matrix, tuple(found.column_suffixes))


# -- choice of the coding ------------------------------------------------------------------------------------


class Subterm(NamedTuple):
    """The factors of a term that are multiplied; `whole` says how each categorical one is coded."""

    factors: Term
    whole: Mapping[str, bool]


def subterms(terms: Iterable[Term], numeric: Iterable[str]) -> list[Subterm]:
    """Split terms into subterms, in the order of the columns, without linearly dependent columns.

    The order is patsy's: terms with the same numeric factors are grouped, the group without numeric factors
    comes first, and terms with fewer factors come first within a group.
    """
    import patsy
    from patsy.redundancy import pick_contrasts_for_term

    numbers = frozenset(numeric)
    groups: dict[frozenset[str], list[Term]] = {}
    for term in terms:
        groups.setdefault(numbers.intersection(term), []).append(term)
    made: list[Subterm] = []
    for group in sorted(groups, key=bool):  # stable
        used: set[Any] = set()
        for term in sorted(groups[group], key=len):
            for chosen in pick_contrasts_for_term(patsy.Term(term), numbers, used):
                factors = tuple(factor for factor in term if factor in numbers or factor in chosen)
                made.append(Subterm(factors, chosen))
    return made
