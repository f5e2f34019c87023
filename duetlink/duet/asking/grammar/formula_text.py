"""Parses formulas into terms and hypotheses into matrices, both by patsy.

A formula is in Wilkinson's notation, `y ~ a * b + C(c) - 1`. A hypothesis on the parameters of a model is
`x = 2 * z, Intercept = 1`.

patsy's parser makes terms and evaluates nothing (https://patsy.readthedocs.io, *How formulas work*). The
factors between its operators, such as `np.log(x)`, stay texts. patsy would let Python evaluate them;
formula_factor.py does it instead. A short formula can have very many terms, so they are counted before patsy
makes them.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from duetlink.duet.asking.grammar.syntax_tree import read
from duetlink.errors import OperationRefused

if TYPE_CHECKING:
    import numpy as np

MAX_TEXT = 5_000  # characters
MAX_HYPOTHESES = 10_000  # characters
MAX_DEPTH = 250  # nested operators; patsy recurses twice for each
MAX_TERMS = 200
MAX_FACTORS = 8  # of one term; the coding compares all pairs of their subsets
MAX_NODES = 1_000  # of one factor's syntax tree
MAX_INNER_DEPTH = 50
BEFORE = "make it a column before: frame = frame.assign(z=…), and name z in the formula"
Term = tuple[str, ...]  # its factors; the intercept has none


class Formula(NamedTuple):
    """The terms of both sides of a formula; `left` is empty if the formula has no left side."""

    left: tuple[Term, ...]
    right: tuple[Term, ...]


def parsed(text: str) -> Formula:
    """Parse a formula. Raises OperationRefused if it is invalid or too large; the message says where."""
    if not isinstance(text, str):
        raise OperationRefused(f"a formula is a text, not a {type(text).__name__}")
    if len(text) > MAX_TEXT:
        raise OperationRefused(f"a formula of {len(text):,} characters is over {MAX_TEXT:,}")
    import patsy
    from patsy.parse_formula import parse_formula

    try:
        found = parse_formula(text)
        _check_size(found)
        read = patsy.ModelDesc.from_formula(found)
    except OperationRefused:
        raise
    except Exception as error:  # patsy raises PatsyError and AssertionError
        raise OperationRefused(
            f"{text[:200]!r} is no formula: {error.args[0] if error.args else ''}"
        ) from None
    return Formula(_terms(read.lhs_termlist), _terms(read.rhs_termlist))


def _terms(found: Iterable[Any]) -> tuple[Term, ...]:
    terms = tuple(tuple(factor.name() for factor in term.factors) for term in found)
    if max(map(len, terms), default=0) > MAX_FACTORS:
        raise OperationRefused(f"a term has at most {MAX_FACTORS} factors")
    for factor in {factor for term in terms for factor in term}:
        tree(factor)
    return terms


def _check_size(formula: Any) -> None:
    """Raise OperationRefused if patsy's syntax tree is too deep or stands for too many terms."""
    level, nodes = [formula], []
    for _ in range(MAX_DEPTH):
        nodes += level
        level = [part for node in level for part in node.args]
    if level:
        raise OperationRefused(f"a formula has at most {MAX_DEPTH} operators within each other")
    counts: dict[int, int] = {}  # an upper bound of the number of terms, by the `id()` of a node
    for node in reversed(nodes):
        counts[id(node)] = _most_terms(node, [counts[id(part)] for part in node.args])
        if counts[id(node)] > MAX_TERMS:
            raise OperationRefused(f"a formula has at most {MAX_TERMS} terms")


def _most_terms(node: Any, parts: list[int]) -> int:
    """Return the number of terms of a node if all are different; `parts` are the numbers of its operands."""
    if node.type == "**":
        power = str(node.args[1].token.extra)
        most = int(power[:9]) if power.isdecimal() else 1
        # (a + b + …)**n has the products of up to n different terms
        return sum(math.comb(parts[0], count) for count in range(1, min(parts[0], most) + 1))
    if node.type in (":", "*"):
        return math.prod(parts) + (sum(parts) if node.type == "*" else 0)
    return sum(parts) or 1


def tree(code: str) -> ast.expr:
    """Parse a factor into a Python syntax tree. Raises OperationRefused if it is invalid or too large."""
    body = read(code, most_nodes=MAX_NODES, most_depth=MAX_INNER_DEPTH, remedy=BEFORE)
    if len(body) != 1 or not isinstance(body[0], ast.Expr):
        raise OperationRefused(f"{code[:200]!r} is no expression; {BEFORE}")
    return body[0].value


def constraints(texts: Sequence[str], names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Convert hypotheses R b = q on the parameters b to the matrix R and the vector q.

    R is float64 of shape (hypotheses, parameters). The grammar is patsy's (*Linear constraints* in its
    documentation): names of parameters, numbers, `+ - * /`, parentheses, `=`, and commas between hypotheses.

    Raises:
        OperationRefused: a text is no hypothesis on these parameters, or is too long.
    """
    import numpy as np
    import patsy

    if (length := sum(map(len, texts))) > MAX_HYPOTHESES:
        raise OperationRefused(f"hypotheses of {length:,} characters are over {MAX_HYPOTHESES:,}")
    shown = f"{', '.join(texts)[:200]!r} is no hypothesis; parameters are {', '.join(map(repr, names[:20]))}"
    try:
        with np.errstate(all="ignore"):
            found = patsy.DesignInfo(names).linear_constraint(list(texts))
    except Exception as error:  # patsy raises PatsyError, AssertionError and RecursionError
        why = error.args[0] if error.args else type(error).__name__
        raise OperationRefused(f"{shown} ({why})") from None
    amounts = found.constants.ravel()
    if not (np.isfinite(found.coefs).all() and np.isfinite(amounts).all()):
        raise OperationRefused(f"{shown} (a number in it is not finite)")
    return found.coefs, amounts
