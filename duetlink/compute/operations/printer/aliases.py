"""Pieces of Python code, and the usual short names of libraries in code."""

from __future__ import annotations

import builtins
import re
from dataclasses import dataclass

from duetlink.compute.operations.allow_lists.allowed import registered
from duetlink.compute.operations.printer.names import is_identifier

# Python's operator precedence, from the loosest
STATEMENT, COMPARISON, OR, XOR, AND, SHIFT, SUM, PRODUCT, UNARY, POWER, PRIMARY = range(11)

_ALIASES = (
    ("torch.nn.functional.", "F."),
    ("numpy.", "np."),
    ("pandas.", "pd."),
    ("polars.", "pl."),
    ("statsmodels.api.", "sm."),
)
_LIBRARIES = "numpy torch pandas polars sklearn statsmodels scipy operator math datetime"
_KNOWN = frozenset(_LIBRARIES.split())
_PATH = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of Python, and the precedence of its outermost operator."""

    text: str
    binds: int = PRIMARY

    def within(self, binds: int) -> str:
        """Return the text as an operand of an operator with this precedence, in parentheses if it
        needs them.
        """
        return self.text if self.binds >= binds else f"({self.text})"


def path(name: str) -> str | None:
    """Return the usual name of a function or constant in code; None if no library has it."""
    if not _PATH.fullmatch(name) or not all(map(is_identifier, name.split("."))):
        return None
    library, _, rest = name.partition(".")
    if library == "builtins" or not rest:
        bare = rest or library
        return bare if hasattr(builtins, bare) else None
    if library not in _KNOWN and library not in registered():
        return None
    if library == "sklearn":
        return name.rpartition(".")[2]
    for prefix, alias in _ALIASES:
        if name.startswith(prefix):
            return alias + name.removeprefix(prefix)
    return name
