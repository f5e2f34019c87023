"""Plain Polars expressions, selectors and types as arguments of operations."""

from __future__ import annotations

from typing import Any

from duetlink.duet.asking.grammar.call import recorded
from duetlink.duet.asking.grammar.polars_expression import parsed, parsed_type
from duetlink.duet.asking.program import Program


def read_polars(program: Program) -> None:
    """Let a program take what is made by plain `polars`, which is imported."""
    import polars

    def read_expression(expression: Any) -> Any:
        return recorded(parsed(expression, program.allowed), program)

    def read_type(dtype: Any) -> Any:
        return recorded(parsed_type(dtype, program.allowed), program)

    then = polars.when(True).then(1)
    kinds = (polars.Expr, type(then), type(then.when(True).then(1)), type(polars.selectors.all()))
    for kind in kinds:
        program.reads(kind, read_expression)
    for name in ("Array", "Datetime", "Decimal", "Duration", "Enum", "List", "Struct"):
        program.reads(getattr(polars, name), read_type)
