"""The names of results in printed code, and the expressions printed in place of a name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from duetlink.compute.operations.printer.aliases import Text
from duetlink.compute.operations.printer.literal import quoted
from duetlink.compute.operations.printer.names import RESERVED, Names, hint_of, usable
from duetlink.compute.operations.printer.uses import ALL, BEFORE, HERE, Meaning, Uses
from duetlink.compute.operations.steps.program import ASSET
from duetlink.compute.operations.steps.slice import Slice


@dataclass(slots=True, eq=False)
class Waiting:
    """A result whose expression will be printed where it is used."""

    text: Text
    hint: str
    gradients: bool
    words: Sequence[str]
    until: float  # the step that reassigns one of its variables
    writes: bool  # it, or an expression in it, changes an object: no read may move past it


class Variables:
    """Names and expressions, by the numbers of results."""

    def __init__(self, slice_: Slice, uses: Uses) -> None:
        self._slice = slice_
        self._uses = uses
        self._names = Names()
        self.name: dict[int, str] = {}
        self.own: set[int] = set()  # results whose name belongs to them alone
        self.before: dict[int, str] = {}  # name of the previous round's result, if it has its own
        self.lists: dict[int, str] = {}  # name of the list of all rounds' results
        self.waiting: dict[int, Waiting] = {}
        self.hints: dict[int, str] = {}  # prefix for the names of results made from these
        self.assets: dict[tuple[str, int], str] = {}
        self._values = 0

    def name_assets(self) -> list[str]:
        """Return lines that define the assets whose variable is not simply their name."""
        found = [shape.arguments for shape in self._slice.shapes if shape.operation == ASSET]
        known = dict.fromkeys((name, revision) for name, revision in found)
        names = [name for name, _ in known]
        lines = []
        for plain in (True, False):  # assets whose name is a usable variable come first
            for name, revision in known:
                if (usable(name) and name not in RESERVED) is not plain:
                    continue
                variable = self.assets[name, revision] = self._names.new(name if plain else _cleaned(name))
                if variable != name or names.count(name) > 1:
                    which = f", revision={revision}" if names.count(name) > 1 else ""
                    lines.append(f"{variable} = asset({quoted(name)}{which})")
        return lines

    def new(self, hint: str) -> str:
        """Return an unused name."""
        return self._names.new(hint)

    def new_value(self) -> str:
        """Return an unused name for a value that the peer sent."""
        self._values += 1
        return self._names.new(f"value_{self._values}")

    def called(self, number: int, hint: str) -> str:
        """Return the name of a result; it is chosen on the first call."""
        if number not in self.name:
            self.name[number] = self._names.new(hint)
            self.own.add(number)
        return self.name[number]

    def hint(self, step: int, first: str) -> str:
        """Return a name for the result of a step on something named `first`."""
        shape = self._slice.shapes[self._slice.steps[step]]
        key = shape.arguments[1] if len(shape.arguments) == 2 else None
        return hint_of(shape.operation, first, key)

    def text(self, meaning: Meaning) -> Text:
        """Return the text of a result."""
        number, which = meaning
        if which == BEFORE:
            return Text(self.before.get(number) or self.name.get(number, "undefined"))
        if which == ALL:
            return Text(self.lists[number])
        if which != HERE:
            return Text(f"{self.lists[number]}[{which}]")
        if number in self.waiting:
            return self.waiting[number].text
        return Text(self.name.get(number, "undefined"))

    def until(self, meanings: Sequence[Meaning]) -> float:
        """Return the first step after which these meanings would be printed differently."""
        found = math.inf
        for number, which in meanings:
            if which == BEFORE and number not in self.before:
                found = min(found, self._uses.remade[number])
            elif which == HERE and number in self.waiting:
                found = min(found, self.waiting[number].until)
        return found


def _cleaned(name: str) -> str:
    letters = (letter if letter.isascii() and letter.isalnum() else "_" for letter in name[:40])
    return "".join(letters).strip("_").lower() or "data"
