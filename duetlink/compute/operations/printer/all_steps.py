"""Prints every step of a slice on a line of its own, with nothing left out.

It is for readers who miss something in the code of `code.py`, where rounds are merged and long lists are cut.
Takes time in proportion to its length.
"""

from __future__ import annotations

from collections.abc import Iterator

from duetlink.compute.operations.printer.aliases import Text
from duetlink.compute.operations.printer.expression import expression
from duetlink.compute.operations.printer.literal import harmless, quoted
from duetlink.compute.operations.steps.program import ASSET, VALUE
from duetlink.compute.operations.steps.slice import Slice


def all_steps(slice_: Slice, first: int = 0) -> Iterator[str]:
    """Yield lines of Python for the steps after the first `first` ones; the last line is the result.

    `step_7` is the name of the seventh step's result.
    """
    position_of = {number: position for position, number in enumerate(slice_.results, 1) if number}
    begin = 0
    for position, (number, end) in enumerate(zip(slice_.steps, slice_.reference_ends, strict=True), 1):
        numbers, begin = slice_.references[begin:end], end
        if position <= first:
            continue
        shape = slice_.shapes[number]
        if shape.operation == ASSET:
            name, revision = shape.arguments
            text = f"asset({quoted(name)}, revision={revision})"
        elif shape.operation == VALUE:
            text = f"value({quoted(harmless(slice_.values[numbers[0]].description))})"
        else:
            references = [
                Text(f"step_{position_of[each]}" if each in position_of else "undefined") for each in numbers
            ]
            used = slice_.results[position - 1] > 0
            text = expression(shape, references, {}, used=used, augment=False, whole=True).text
        plain = "" if shape.gradients else "  # in torch.no_grad()"
        yield f"step_{position} = {text}{plain}" if slice_.results[position - 1] else f"{text}{plain}"
    yield f"step_{position_of[slice_.target]}"
