"""Coded sums towards one root: members on the way add chunks that they cannot read (`adders.py`).

`union`: the members' supports are combined by "or", the root sends the union to all, and the values there are
added. `sketch`: one round of sketches, then floats only where the order of additions matters. `integers`:
integers for blocks whose sum is proven to equal that of floats, floats for the rest. A result has the bits of
the dense sum with the same additions: up a binomial tree; or, with an adder, the root's items plus the sum of
the others' in the order of their ranks.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

import numpy as np

from duetlink.base.runtime.off_loop import off_loop
from duetlink.data.codecs.aggregate import INTEGERS, SKETCH, SUPPORT, VALUES, adds
from duetlink.data.codecs.element import BY_NAME, UINT8, Element
from duetlink.data.codecs.integers.lane import FixedPointFormat
from duetlink.data.codecs.integers.spans import Spans
from duetlink.data.codecs.sketch.peel import peel
from duetlink.data.codecs.sketch.plan import SketchPlan
from duetlink.data.codecs.support import Places, bitmap_of, places_of
from duetlink.errors import OperationMismatch, UnsupportedValue
from duetlink.groups.collectives.execution.elements import Array, divide
from duetlink.groups.collectives.execution.names import Names
from duetlink.groups.collectives.sums.adders import Adders
from duetlink.groups.collectives.sums.base import SumReport
from duetlink.groups.collectives.sums.sketch_terms import SketchTerms, head_of
from duetlink.groups.collectives.values import operands
from duetlink.groups.collectives.values.flat import CollectiveOptions, FlatOperations
from duetlink.groups.collectives.values.forms import Forms
from duetlink.groups.collectives.values.trees import Tree, take_apart

Reduced = tuple[
    Array | None, str, str, int, int | None
]  # the sum at the root; way, why, dense and union items


async def _union(adders: Adders, array: Array, element: Element, why: str = "asked for") -> Reduced:
    bitmap = await off_loop(array.nbytes, bitmap_of, array, element)
    told = await adders.broadcast(await adders.total(SUPPORT, UINT8, bitmap, b""), [bitmap.size])
    places = await off_loop(array.nbytes, places_of, told, array.size)
    values = await _values_at(adders, array, element, places, told)
    return _put(adders, array, (places, values)), "union", why, places.size, places.size


async def _sketch(adders: Adders, array: Array, element: Element) -> Reduced:
    places = await off_loop(array.nbytes, lambda: places_of(bitmap_of(array, element), array.size))
    values = array[places]
    heads = await adders.heads(head_of(array, element, places, values))
    terms = SketchTerms.of(heads, element, array.size)
    if not terms.most_places:
        return _put(adders, array), "sketch", "there is nothing to add", 0, 0
    if terms.refusal:
        return await _union(adders, array, element, terms.refusal)
    plan = SketchPlan.for_load(array.size, terms.load)
    mine = await off_loop(16 * array.nbytes, plan.sketch, places, terms.integers(values))
    total = await adders.total(SKETCH, BY_NAME["uint64"], mine, plan.to_wire())
    # the root sends the places where floats are added; a sketch that it cannot read is replaced by a union
    known, results, by_floats, union_items = places[:0], array[:0], places[:0], None
    told = None
    if total is not None:
        read = await off_loop(16 * array.nbytes, peel, plan, total)
        told = np.empty(0, np.uint8)
        if read.complete.all():
            known, results, by_floats = terms.sums([read])
            union_items = read.places.size
            told = np.concatenate([np.ones(1, np.uint8), _bits(by_floats, array.size)])
    told = await adders.broadcast(told, [0, 1 + -(-array.size // 8)])
    if not told.size:
        return await _union(adders, array, element, f"what there was did not fit {plan.cells:,} cells")
    by_floats = places_of(told[1:], array.size)
    why = f"a sketch of {plan.cells:,} cells was read whole"
    added = await _values_at(adders, array, element, by_floats, told) if by_floats.size else None
    result = _put(adders, array, (known, results), (by_floats, added))
    return result, "sketch", why, by_floats.size, union_items


async def _integers(adders: Adders, array: Array, element: Element) -> Reduced:
    mine: Spans = await off_loop(array.nbytes, Spans.of, array, element)
    heads = await adders.heads(mine.flat.view(np.uint8))
    spans = Spans.from_flat(np.max([np.frombuffer(head, np.int16) for head in heads], axis=0))
    fixed_point = FixedPointFormat.lossless(spans, element, array.size, adders.givers)
    if fixed_point is None:
        return await _union(adders, array, element, "integers would be no smaller")
    integers = await off_loop(array.nbytes, fixed_point.to_integers, array)
    kind = BY_NAME[f"int{8 * fixed_point.width_bytes}"]
    total = await adders.total(INTEGERS, kind, integers, spans.flat.tobytes())
    places = fixed_point.dense_places(array.size)
    values = await _values_at(adders, array, element, places, spans.flat) if places.size else None
    result = _put(adders, array, (places, values))
    if result is not None and total is not None:
        await off_loop(array.nbytes, fixed_point.from_integers, total, result)
    why = f"{np.count_nonzero(fixed_point.chosen):,} of {fixed_point.chosen.size:,} blocks as {kind.name}"
    return result, "integers", why, places.size, None


CODECS: Mapping[str, Callable[[Adders, Array, Element], Awaitable[Reduced]]] = {
    "union": _union,
    "sketch": _sketch,
    "integers": _integers,
}


def checked(value: object, op: str, codec: str) -> Tree | None:
    """Take the value apart; None stays None. Raises UnsupportedValue unless the codec can sum it."""
    if value is None:
        return None
    tree = take_apart(value)
    operands.check(tree, op, in_place=False)
    check(tree.elements, op, codec)
    return tree


async def reduce_tree(
    flat: FlatOperations,
    forms: Forms,
    tree: Tree | None,
    root: int,
    op: str,
    codec: str,
    options: CollectiveOptions,
    limit_bytes: int,
) -> tuple[object, list[SumReport]]:
    """Sum all members' values at the root; the others get None. A member without a `tree` only adds.

    Returns the value, and one report for each kind of item.
    """
    form = b"" if tree is None else tree.what.encode()
    told = await forms.all_gather(form, f"reduce to a {op} by {codec}", options.source_location)
    adders = Adders(flat, root, check_forms(told, flat.engine.names), options, limit_bytes)
    if tree is None:
        await adders.help()
        return None, []
    flats, reports = {}, []
    for element in tree.elements:
        operand = await operands.Operand.of(tree, element, op, adders.givers)
        total, report = await reduce(adders, codec, operand.array, operand.wide, operand.op)
        reports.append(report)
        if total is not None:
            operand.array = total
            flats[element.name] = operand.items()
    await adders.end()
    return tree.with_items(flats) if adders.at_root else None, reports


def check(elements: Sequence[Element], op: str, codec: str) -> None:
    """Raises UnsupportedValue unless the codec can do that operation with such items."""
    if op not in ("sum", "mean"):
        raise UnsupportedValue(f"codec {codec} is for sums and means, not for {op}")
    for element in elements:
        if not adds(element):
            raise UnsupportedValue(f"codec {codec} adds numbers, not {element.name}")
        if codec != "union" and not element.is_float:
            raise UnsupportedValue(f"codec {codec} is for real floating point numbers, not {element.name}")


def check_forms(forms: Sequence[bytes], names: Names) -> list[bool]:
    """Return, by rank, whether the member gives a value: `forms` holds each value's form, empty if there is
    none.

    Raises:
        OperationMismatch: two members give values of different forms.
    """
    gives = [bool(form) for form in forms]
    first = gives.index(True) if any(gives) else 0
    for rank, form in enumerate(forms):
        if form and form != forms[first]:
            raise OperationMismatch(f"{names[first]} and {names[rank]} give values of different forms")
    return gives


async def reduce(
    adders: Adders, codec: str, array: Array, element: Element, op: str
) -> tuple[Array | None, SumReport]:
    """Return the sum or mean of the given values, in new memory, at the root; None at the others.

    Raises, in addition to what `Engine.perform` raises:
        MalformedChunk: a member sent something that is not a chunk, or one of another sum.
    """
    adders.array_bytes = array.nbytes
    engine = adders.flat.engine
    began_s, sent_before_bytes = time.monotonic(), engine.sent_bytes
    total, way, why, dense_items, union_items = await CODECS[codec](adders, array, element)
    if total is not None and op == "mean":
        divide(total, adders.givers, element)
    report = SumReport(
        codec,
        way,
        why,
        element.name,
        array.size,
        adders.givers,
        dense_items,
        union_items,
        elapsed_s=time.monotonic() - began_s,
        sent_bytes=engine.sent_bytes - sent_before_bytes,
        dense_bytes=0 if adders.at_root else array.nbytes,
    )
    return total, report


async def _values_at(
    adders: Adders, array: Array, element: Element, places: Places, agreed: Array
) -> Array | None:
    """Return the sum at these places at the root; the places follow from `agreed`, which all members know."""
    values = await off_loop(array.nbytes, lambda: array[places])
    return await adders.total(VALUES, element, values, agreed.tobytes())


def _put(adders: Adders, array: Array, *found: tuple[Places, Array | None]) -> Array | None:
    """Return, at the root, an array of zeros with these values at these places."""
    if not adders.at_root:
        return None
    result = np.zeros_like(array)
    for places, values in found:
        if values is not None:
            result[places] = values
    return result


def _bits(places: Places, items: int) -> Array:
    mask = np.zeros(items, np.bool_)
    mask[places] = True
    return np.packbits(mask)
