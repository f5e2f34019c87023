"""Hypotheses on the parameters of a model, `x = 2 * z, Intercept = 1`, read by patsy into a matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from duetlink.errors import OperationRefused

if TYPE_CHECKING:
    import numpy as np

MAX_TEXT = 10_000  # characters


def constraints(texts: Sequence[str], names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """One row for each hypothesis, float64 of shape (hypotheses, parameters), and what each row amounts to.

    The grammar is patsy's (*Linear constraints* in its documentation): names of parameters, numbers,
    `+ - * /`, parentheses, `=`, and commas between hypotheses.

    Raises:
        OperationRefused: a text is no hypothesis on these parameters, or too long.
    """
    import numpy as np
    import patsy

    if (length := sum(map(len, texts))) > MAX_TEXT:
        raise OperationRefused(f"hypotheses of {length:,} characters are over {MAX_TEXT:,}")
    shown = f"{', '.join(texts)[:200]!r} is no hypothesis; parameters are {', '.join(map(repr, names[:20]))}"
    try:
        with np.errstate(all="ignore"):
            found = patsy.DesignInfo(names).linear_constraint(list(texts))
    except Exception as error:  # besides PatsyError, it has assertions, and recursion as deep as the text
        why = error.args[0] if error.args else type(error).__name__
        raise OperationRefused(f"{shown} ({why})") from None
    amounts = found.constants.ravel()
    if not (np.isfinite(found.coefs).all() and np.isfinite(amounts).all()):
        raise OperationRefused(f"{shown} (a number in it is not finite)")
    return found.coefs, amounts
