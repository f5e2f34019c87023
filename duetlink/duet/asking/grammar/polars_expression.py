"""A Polars expression of the scientist's, made again out of operations of the lists.

Theory. Polars can write an expression as JSON, which says all that is in it. That JSON may not cross: it
could carry a pickled function, and to read it is as much as to run it. So it is written by the scientist's
side and read there, by this parser, into a tree of calls; only these become steps. The names of nodes and
options change between versions of Polars. So nothing of what is read is trusted: the tree is done here first,
and the expression that comes of it must be, byte by byte, the one that was given. Otherwise it is refused.
"""

from __future__ import annotations

import json
from typing import Any

from duetlink.compute.operations.allow_lists.allowed import Allowed
from duetlink.duet.asking.grammar.call import done_here, recorded
from duetlink.duet.asking.grammar.polars_node import BY_HAND
from duetlink.duet.asking.grammar.polars_reader import Reader
from duetlink.duet.asking.recording.program import Program
from duetlink.errors import OperationRefused

MAX_TEXT = 16 * 1024 * 1024  # characters of JSON; an item of a list takes some twenty
MAX_DEPTH = 400  # of nodes in nodes; one operation takes two to four
MAX_NODES = 50_000


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


def parsed(expression: Any, allowed: Allowed) -> Any:
    """The tree of an expression, of which `done_here` makes its equal.

    Raises:
        OperationRefused: it has a function, is too large, or something in it is in no list; the message says
            what, and what to do instead.
    """
    try:
        text = expression.meta.serialize(format="json")
        wanted = expression.meta.serialize(format="binary")
    except Exception as error:  # of the library: it holds something that cannot be written
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
    # JSON has no infinity and no NaN; which it was, only the comparison tells
    for not_finite in (float("nan"), float("inf"), float("-inf")) if "null" in text else (0.0,):
        reader = Reader(not_finite)
        tree = reader.selection(written) if _is_selector(expression) else reader.expression(written)
        try:
            made = done_here(tree, allowed).meta.serialize(format="binary")
        except OperationRefused:
            raise
        except Exception as error:  # of the library: called in another way than it expects
            refusal = f"{type(error).__name__}: {str(error)[:200]}"
            continue
        if made == wanted:
            return tree
    raise OperationRefused(
        f"this expression is not known here ({refusal}); {BY_HAND}: {str(expression)[:200]}"
    )


def parsed_type(dtype: Any, allowed: Allowed) -> Any:
    """The tree of a type of columns, such as `polars.List(polars.Int8)`. Raises OperationRefused."""
    import polars

    written = json.loads(polars.lit(None).cast(dtype).meta.serialize(format="json"))
    tree = Reader(0.0).type(written["Cast"]["dtype"])
    if done_here(tree, allowed) != dtype:
        raise OperationRefused(f"the column type {dtype} comes out as another one; {BY_HAND}")
    return tree


def _is_selector(expression: Any) -> bool:
    return type(expression).__name__ == "Selector"


def _check_size(written: Any) -> None:
    """Raise OperationRefused where it is too deep or too large to be walked."""
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
