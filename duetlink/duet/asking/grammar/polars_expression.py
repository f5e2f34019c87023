"""Converts a Polars expression into operations of the allow-lists.

Theory. Polars can serialise an expression as JSON, which contains all of it. That JSON must not be sent: it
can contain a pickled function, so that reading it means running it. Instead, the scientist's side serialises
the expression and parses the JSON itself, into a tree of calls; only these are recorded as steps. The names
of nodes and options change between versions of Polars, so the parser's result is never trusted: the tree is
run here first, and the expression that it makes has to be equal to the given one, byte by byte. Otherwise the
expression is refused.
"""

from __future__ import annotations

import json
from typing import Any

from duetlink.compute.operations.allow_lists.allowed import Allowed
from duetlink.duet.asking.grammar.call import recorded, run_here
from duetlink.duet.asking.grammar.polars_node import BY_HAND
from duetlink.duet.asking.grammar.polars_reader import Reader
from duetlink.duet.asking.recording.program import Program
from duetlink.errors import OperationRefused

MAX_TEXT = 16 * 1024 * 1024  # characters of JSON; an item of a list takes about twenty
MAX_DEPTH = 400  # levels of nested nodes; one operation takes two to four
MAX_NODES = 50_000


def read_polars(program: Program) -> None:
    """Make `program` accept expressions and types of Polars as arguments. Polars is imported already."""
    import polars

    def read_expression(expression: Any) -> Any:
        return recorded(parsed(expression, program.allowed), program)

    def read_type(dtype: Any) -> Any:
        return recorded(parsed_type(dtype, program.allowed), program)

    then = polars.when(True).then(1)
    kinds = (polars.Expr, type(then), type(then.when(True).then(1)), type(polars.selectors.all()))
    for kind in kinds:
        program.register_reader(kind, read_expression)
    for name in ("Array", "Datetime", "Decimal", "Duration", "Enum", "List", "Struct"):
        program.register_reader(getattr(polars, name), read_type)


def parsed(expression: Any, allowed: Allowed) -> Any:
    """Parse an expression into a tree from which `run_here` makes an equal expression.

    Raises:
        OperationRefused: it contains a Python function, is too large, or uses an operation in no list; the
            message says which, and what to do instead.
    """
    try:
        text = expression.meta.serialize(format="json")
        wanted = expression.meta.serialize(format="binary")
    except Exception as error:  # raised by Polars for a part that it cannot serialise
        raise OperationRefused(
            f"the expression cannot be read here ({type(error).__name__}); {BY_HAND}"
        ) from error
    if len(text) > MAX_TEXT:
        raise OperationRefused(
            f"an expression of {len(text):,} characters is over {MAX_TEXT:,}: place its lists by duet.remote"
        )
    try:
        written = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OperationRefused(
            f"the expression cannot be read here ({type(error).__name__}); {BY_HAND}"
        ) from None
    _check_size(written)
    refusal = "it comes out as another one"
    # JSON has null for infinity and NaN; the comparison shows which one it was
    for not_finite in (float("nan"), float("inf"), float("-inf")) if "null" in text else (0.0,):
        reader = Reader(not_finite)
        tree = reader.selection(written) if _is_selector(expression) else reader.expression(written)
        try:
            made = run_here(tree, allowed).meta.serialize(format="binary")
        except OperationRefused:
            raise
        except Exception as error:  # raised by Polars if the tree calls it wrongly
            refusal = f"{type(error).__name__}: {str(error)[:200]}"
            continue
        if made == wanted:
            return tree
    raise OperationRefused(
        f"this expression is not known here ({refusal}); {BY_HAND}: {str(expression)[:200]}"
    )


def parsed_type(dtype: Any, allowed: Allowed) -> Any:
    """Parse a column type, such as `polars.List(polars.Int8)`, into a tree. Raises OperationRefused."""
    import polars

    written = json.loads(polars.lit(None).cast(dtype).meta.serialize(format="json"))
    tree = Reader(0.0).type(written["Cast"]["dtype"])
    if run_here(tree, allowed) != dtype:
        raise OperationRefused(f"the column type {dtype} comes out as another one; {BY_HAND}")
    return tree


def _is_selector(expression: Any) -> bool:
    return type(expression).__name__ == "Selector"


def _check_size(written: Any) -> None:
    """Raise OperationRefused if the parsed JSON is too deep or too large."""
    level, depth, nodes = [written], 0, 0
    while level:
        nodes += len(level)
        depth += 1
        if depth > MAX_DEPTH or nodes > MAX_NODES:
            raise OperationRefused(
                f"an expression of more than {MAX_NODES:,} parts, or {MAX_DEPTH} within each other, is too "
                "large: make it in several steps, with with_columns"
            )
        below: list[Any] = []
        for part in level:
            if isinstance(part, dict):
                below += part.values()
            elif isinstance(part, list) and not (
                part and isinstance(part[0], int)
            ):  # not the bytes of a list
                below += part
        level = below
