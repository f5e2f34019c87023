"""Prints one step as a Python expression or statement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from duetlink.compute.operations.fitted import FITTED
from duetlink.compute.operations.printer.aliases import (
    AND,
    COMPARISON,
    OR,
    POWER,
    PRIMARY,
    PRODUCT,
    SHIFT,
    STATEMENT,
    SUM,
    UNARY,
    XOR,
    Text,
    path,
)
from duetlink.compute.operations.printer.defaults import shown_keywords
from duetlink.compute.operations.printer.literal import harmless, literal, quoted
from duetlink.compute.operations.printer.names import is_identifier
from duetlink.compute.operations.steps.trace import Shape
from duetlink.compute.prep.frames import PREPARE
from duetlink.data.prep.spec import PrepSpec
from duetlink.errors import DuetError

_BINARY = {
    **dict.fromkeys(("add", "concat"), ("+", SUM)),
    "sub": ("-", SUM),
    "mul": ("*", PRODUCT),
    "truediv": ("/", PRODUCT),
    "floordiv": ("//", PRODUCT),
    "mod": ("%", PRODUCT),
    "matmul": ("@", PRODUCT),
    "pow": ("**", POWER),
    "lshift": ("<<", SHIFT),
    "rshift": (">>", SHIFT),
    "and": ("&", AND),
    "xor": ("^", XOR),
    "or": ("|", OR),
    "eq": ("==", COMPARISON),
    "ne": ("!=", COMPARISON),
    "lt": ("<", COMPARISON),
    "le": ("<=", COMPARISON),
    "gt": (">", COMPARISON),
    "ge": (">=", COMPARISON),
}
_UNARY = {"neg": "-", "pos": "+", "invert": "~"}
_MAX_ITEMS = 16  # items of a container that are all shown
_HEAD, _TAIL = 10, 2  # items shown of a longer container
# items shown of all containers of a step together, so that the code behind them can be found
_MOST_ITEMS = 300


def expression(
    shape: Shape,
    references: Sequence[Text],
    changing: Mapping[int, Text],
    *,
    used: bool,
    augment: bool,
    whole: bool = False,
) -> Text:
    """Return the text of a step.

    `references` replace the results that it names, in order, and `changing` replaces some of its literals, by
    their index among `literals`. If its result is not `used`, the text may be a statement. With `augment`, `x
    += y` is right for it. With `whole`, no item and no character of a text is left out.
    """
    return _Writer(shape, references, changing, whole).step(used, augment)


def augments(shape: Shape) -> bool:
    """Return True if the operation is `operator.iadd` or one like it."""
    name = shape.operation.removeprefix("operator.i").rstrip("_")
    return (
        name != shape.operation
        and name in _BINARY
        and len(shape.arguments) == 2
        and not shape.keywords
        and type(shape.arguments[0]) is list
        and shape.arguments[0] == [0]
    )


class _Writer:
    def __init__(
        self, shape: Shape, references: Sequence[Text], changing: Mapping[int, Text], whole: bool
    ) -> None:
        self._shape = shape
        self._whole = whole
        self._left = _MOST_ITEMS
        self._references = iter(references)
        self._changing = changing
        self._literal = -1  # index of the last literal

    def step(self, used: bool, augment: bool) -> Text:
        shape = self._shape
        name = shape.operation
        dunder = name.startswith(".__") and name.endswith("__")
        bare = (
            name[3:-2] if dunder else name.removeprefix("operator.") if name.startswith("operator.") else ""
        )
        bare = bare.rstrip("_")
        if bare and not shape.keywords:
            written = self._operator(bare, dunder, used, augment)
            if written is not None:
                return written
        if name[0] in ".@":
            return self._member(name, used)
        if name == PREPARE and (written := self._prepared()) is not None:
            return written
        called = "fitted" if name == FITTED else path(name)
        arguments = self._all()
        if called is None:
            return Text(f"operation({quoted(name)})({arguments})")
        return Text(f"{called}({arguments})")

    def _prepared(self) -> Text | None:
        """Return `frame.prep(Prep()…)` with every step in full, since its reader approves them by name."""
        arguments = self._shape.arguments
        if len(arguments) != 2 or self._shape.keywords or self._changing:
            return None
        frame, content = arguments
        if type(frame) is not list or type(content) is not str:
            return None
        try:
            code = PrepSpec.from_json(content).code()
        except DuetError:
            return None
        return Text(f"{self._target()}.prep({code})")

    def _operator(self, name: str, dunder: bool, used: bool, augment: bool) -> Text | None:
        arguments = self._shape.arguments
        if len(arguments) == 1:
            if name in _UNARY:
                return Text(f"{_UNARY[name]}{self._part(arguments[0]).within(UNARY)}", UNARY)
            if name in ("abs", "len", "not", "truth", "bool"):
                called = {"not": "not ", "truth": "bool"}.get(name, name)
                part = self._part(arguments[0])
                return Text(f"(not {part.within(COMPARISON)})" if name == "not" else f"{called}({part.text})")
            return None
        if len(arguments) == 2:
            if name in _BINARY:
                return self._binary(name, swapped=False)
            if dunder and name[0] == "r" and name[1:] in _BINARY:
                return self._binary(name[1:], swapped=True)
            augments = (augment or dunder) and self._has_target()
            if name[0] == "i" and name[1:] in _BINARY and not used and augments:
                target, value = self._part(arguments[0]), self._part(arguments[1])
                return Text(f"{target.within(PRIMARY)} {_BINARY[name[1:]][0]}= {value.text}", STATEMENT)
            if name == "getitem":
                return Text(self._subscript())
            if name == "delitem" and not used:
                return Text(f"del {self._subscript()}", STATEMENT)
            if name == "contains":
                container, item = (self._part(argument).within(COMPARISON + 1) for argument in arguments)
                return Text(f"{item} in {container}", COMPARISON)
        if len(arguments) == 3 and name == "setitem" and not used:
            return Text(f"{self._subscript()} = {self._part(arguments[2]).text}", STATEMENT)
        return None

    def _binary(self, name: str, *, swapped: bool) -> Text:
        sign, binds = _BINARY[name]
        left, right = (self._part(argument) for argument in self._shape.arguments)
        if swapped:
            left, right = right, left
        if name == "pow":
            return Text(f"{left.within(PRIMARY)} ** {right.within(UNARY)}", binds)
        # in Python, a < b < c means something else
        first = left.within(binds + 1 if binds == COMPARISON else binds)
        return Text(f"{first} {sign} {right.within(binds + 1)}", binds)

    def _subscript(self) -> str:
        target = self._target()
        key = self._shape.arguments[1]
        if type(key) is list and key and key[0] == "t" and 1 < len(key) <= _MAX_ITEMS:
            parts = [self._index(part) for part in key[1:]]
            return f"{target}[{', '.join(parts)}{',' if len(parts) == 1 else ''}]"
        return f"{target}[{self._index(key)}]"

    def _index(self, key: Any) -> str:
        if type(key) is not list or len(key) != 4 or key[0] != "s":
            return self._part(key).text
        start, stop, step = ("" if part is None else self._part(part).text for part in self._bounds(key))
        return f"{start}:{stop}" + (f":{step}" if step else "")

    def _bounds(self, key: list[Any]) -> Iterable[Any]:
        for part in key[1:]:
            if part is None:
                self._literal += 1
            yield part

    def _member(self, name: str, used: bool) -> Text:
        if not self._shape.arguments:
            return Text(f"operation({quoted(name)})({self._all()})")
        target = self._target()
        setting = name.startswith("@=")
        bare = name[2:] if setting else name[1:]
        reached = f"{target}.{bare}" if is_identifier(bare) else f"getattr({target}, {quoted(bare)})"
        if setting and not used and is_identifier(bare) and len(self._shape.arguments) == 2:
            return Text(f"{reached} = {self._part(self._shape.arguments[1]).text}", STATEMENT)
        if name[0] == "@" and not setting:
            return Text(reached)
        arguments = self._all(1)
        if setting:
            return Text(f"setattr({target}, {quoted(bare)}, {arguments})")
        return Text(f"{target}({arguments})" if bare == "__call__" else f"{reached}({arguments})")

    def _has_target(self) -> bool:
        """Return True if the first argument is a step's result: nothing else can stand left of `=`."""
        argument = self._shape.arguments[0]
        return type(argument) is list and bool(argument) and type(argument[0]) is int

    def _target(self) -> str:
        text = self._part(self._shape.arguments[0]).within(PRIMARY)
        return f"({text})" if text[:1].isdigit() else text

    def _all(self, first: int = 0) -> str:
        written = self._items(self._shape.arguments[first:], "*items")
        shown = shown_keywords(self._shape.operation, self._shape.keywords)
        for name, argument in self._shape.keywords.items():
            text = self._part(argument).text
            if name not in shown and self._literal not in self._changing:
                continue
            written.append(f"{name}={text}" if is_identifier(name) else f"**{{{quoted(name)}: {text}}}")
        return ", ".join(written)

    def _items(self, parts: Sequence[Any], cut: str) -> list[str]:
        if self._whole or len(parts) <= min(_MAX_ITEMS, self._left):
            self._left -= len(parts)
            return [self._part(part).text for part in parts]
        if self._left < _HEAD + _TAIL:
            for part in parts:
                self._skip(part)
            return [f"{cut}({len(parts):_})"]
        self._left -= _HEAD + _TAIL
        head = [self._part(part).text for part in parts[:_HEAD]]
        skipped = parts[_HEAD:-_TAIL]
        for part in skipped:
            self._skip(part)
        return [*head, f"{cut}({len(skipped):_})", *(self._part(part).text for part in parts[-_TAIL:])]

    def _skip(self, argument: Any) -> None:
        if type(argument) is not list:
            self._literal += 1
        elif argument and type(argument[0]) is int:
            next(self._references, None)
        else:
            for part in argument[1:]:
                self._skip(part)

    def _part(self, argument: Any) -> Text:
        if type(argument) is not list:
            return self._plain(argument)
        if argument and type(argument[0]) is int:
            return next(self._references, Text("undefined"))
        tag, *parts = argument
        if tag in ("c", "f") and len(parts) == 1 and isinstance(parts[0], str):
            self._literal += 1
            found = path(parts[0])
            return Text(found if found is not None else f"constant({quoted(parts[0])})")
        if tag == "z" and len(parts) == 2:
            return Text(f"complex({self._part(parts[0]).text}, {self._part(parts[1]).text})")
        if tag == "l":
            return Text(f"[{', '.join(self._items(parts, '*items'))}]")
        if tag == "t":
            written = self._items(parts, "*items")
            return Text(f"({', '.join(written)}{',' if len(written) == 1 else ''})")
        if tag == "d" and len(parts) % 2 == 0:
            return Text(self._dict(parts))
        if tag == "s" and len(parts) == 3:
            return Text(f"slice({', '.join(self._part(part).text for part in parts)})")
        if tag == "e" and not parts:
            return Text("...")
        for part in parts:
            self._skip(part)
        return Text(f"malformed({quoted(repr(tag)[:40])})")

    def _dict(self, parts: Sequence[Any]) -> str:
        written = []
        pairs = len(parts) // 2
        if not self._whole and self._left < min(pairs, _MAX_ITEMS):
            for part in parts:
                self._skip(part)
            return f"{{**items({pairs:_})}}"
        self._left -= min(pairs, _MAX_ITEMS)
        for index in range(pairs):
            if pairs > _MAX_ITEMS and not self._whole and _HEAD <= index < pairs - _TAIL:
                self._skip(parts[2 * index])
                self._skip(parts[2 * index + 1])
                if index == _HEAD:
                    written.append(f"**items({pairs - _HEAD - _TAIL:_})")
                continue
            key, item = self._part(parts[2 * index]), self._part(parts[2 * index + 1])
            written.append(f"{key.text}: {item.text}")
        return f"{{{', '.join(written)}}}"

    def _plain(self, argument: Any) -> Text:
        self._literal += 1
        if self._literal in self._changing:
            return self._changing[self._literal]
        if isinstance(argument, dict):
            return Text(f"malformed({quoted(harmless(repr(argument)[:40]))})")
        if self._whole and isinstance(argument, str):
            return Text(quoted(argument))
        text = literal(argument)
        binds = SUM if " + " in text and isinstance(argument, str) and len(argument) > 60 else PRIMARY
        return Text(text, UNARY if text.startswith("-") else binds)
