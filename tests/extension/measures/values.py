"""How measures travel: their unit in a node of its own, their numbers as an array below it."""

from __future__ import annotations

import numpy as np

from duetlink.data.values.base import Reader, Writer, counted
from duetlink.data.values.schema_pb2 import Foreign, Node
from duetlink.errors import MalformedValue
from measures import Measures

MOST_UNIT = 20  # characters


class MeasuresType:
    """Follows `duetlink.data.values.base.ValueType`."""

    def describe(self, obj: Measures) -> str:
        return f"{counted(len(obj.numbers), 'number')} in {obj.unit}"

    def elements(self, obj: Measures) -> int | None:
        return 0  # the array below is counted

    def write(self, obj: Measures, writer: Writer) -> None:
        if type(obj.numbers) is not np.ndarray or len(obj.unit) > MOST_UNIT:
            raise writer.unsupported(
                obj, f"its numbers are no array, or its unit is over {MOST_UNIT} letters"
            )
        writer.node(foreign=Foreign(library="measures", data=obj.unit.encode()))
        writer.value(obj.numbers, ".numbers")

    def read(self, node: Node, reader: Reader) -> object:
        unit = node.foreign.data.decode()
        if len(unit) > MOST_UNIT:
            raise MalformedValue(f"a unit of {len(unit)} letters")
        return Measures(reader.expect(np.ndarray), unit)


HANDLER = MeasuresType()
