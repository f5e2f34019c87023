"""Prints the steps of a slice as Python that a person could have written, so that its reader sees what was
done.

A result that is used once is written where it is used, as long as the line stays short and no expression
moves past a step that changes an object. A result that is used more often gets a name. Repeated steps become
a loop (`repetition.py`), of which the first round is printed; what differs in the other rounds is a comment
behind the line. The last line is the result.

The peer chose the operations, the literals and the descriptions of values, and may want to deceive. So none
of these can end a line, a text or a comment, every name is chosen here, and `x += y` is printed only where it
is true for any `x`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from duetlink.compute.operations.allow_lists.settings import words_of
from duetlink.compute.operations.printer.aliases import Text
from duetlink.compute.operations.printer.all_steps import all_steps
from duetlink.compute.operations.printer.defaults import shown_keywords
from duetlink.compute.operations.printer.expression import augments, expression
from duetlink.compute.operations.printer.lines import ENDING, MOST_LINES, Line, heading, printed
from duetlink.compute.operations.printer.literal import MAX_SHOWN, harmless, quoted
from duetlink.compute.operations.printer.loops import Item, Loop
from duetlink.compute.operations.printer.names import COUNTERS
from duetlink.compute.operations.printer.outline import references_in
from duetlink.compute.operations.printer.rounds import differences, steps_like
from duetlink.compute.operations.printer.uses import ALL, HERE, Meaning, Uses, changes
from duetlink.compute.operations.printer.variables import Variables, Waiting
from duetlink.compute.operations.steps.kinds import BACK, CHANGES_FIRST, teaches
from duetlink.compute.operations.steps.program import ASSET, VALUE
from duetlink.compute.operations.steps.slice import Slice
from duetlink.compute.operations.steps.trace import Shape
from duetlink.compute.prep.frames import PREPARE

MAX_LINES = 400
WIDTH = 100
_MAX_WORDS = 100  # characters of the description of a value
_MOST_SEEDS = 8
_MOST_TEXTS = 500  # texts that are listed
_LAST_STEPS = 20  # the last steps, which are shown beyond max_lines
_MAX_ENDING = 500  # characters of one of these steps
_RESERVED_WIDTH = 16  # characters of a line that are kept for the code around a waiting expression


def code_of(slice_: Slice, *, max_lines: int = MAX_LINES, width: int = WIDTH) -> str:
    """Return Python code for a slice.

    Beyond `max_lines` lines, it says how many steps are not shown, and shows the last ones.
    """
    return _Code(slice_, max_lines, width).text()


def _texts_of(shape: Shape) -> Iterator[str]:
    if shape.operation in (ASSET, VALUE, PREPARE):
        return
    shown = shown_keywords(shape.operation, shape.keywords)
    for argument in (*shape.arguments, *(shape.keywords[name] for name in shown)):
        yield from _texts_in(argument)


def _texts_in(argument: Any) -> Iterator[str]:
    if type(argument) is str:
        yield argument
    elif type(argument) is list and argument and argument[0] not in ("c", "f"):
        for part in argument[1:]:
            yield from _texts_in(part)


def _beginning(line: str) -> str:
    more = len(line) - _MAX_ENDING
    return line if more <= 0 else f"{line[:_MAX_ENDING]}  # \u2026 {more:,} further characters"


@dataclass(slots=True, eq=False)
class _Block:
    """Items that are printed one below the other."""

    items: Sequence[Item]
    number: int
    loops: tuple[Loop, ...]  # the loops around it, outermost first
    changed: list[int]  # before each item, how many items change an object
    lines: list[Line] = field(default_factory=list)
    counts: bool = False  # its lines use the loop's counter


class _Code:
    def __init__(self, slice_: Slice, max_lines: int, width: int) -> None:
        self._slice = slice_
        self._max_lines = max_lines
        self._width = width
        self._uses = Uses(slice_)
        self._variables = Variables(slice_, self._uses)
        self._same_step: dict[int, list[int]] = {}  # step of a first round -> that step in all rounds
        self._written = 0  # number of lines
        self._shown = 0  # number of steps
        # without backward steps and parameters, `torch.no_grad()` has no effect and is not printed
        self._graded = any(
            shape.kind == BACK or teaches(shape.operation, shape.keywords) for shape in slice_.shapes
        )

    def text(self) -> str:
        """Return the whole code."""
        head = self._variables.name_assets()
        seeds = dict.fromkeys(draw.seed for draw in self._slice.draws.values() if draw.seed is not None)
        if seeds:
            more = ", …" if len(seeds) > _MOST_SEEDS else ""
            head.append(f"# seed {', '.join(map(str, list(seeds)[:_MOST_SEEDS]))}{more}")
        drawing = len(self._slice.draws)
        repeated = drawing - len(set(self._slice.draws.values()))
        if repeated:
            head.append(f"# {repeated:,} of {drawing:,} draws get the random numbers of another one again")
        self._written = len(head)
        block = self._block(self._uses.items, 0, ())
        if self._write_all(block):
            meaning = self._uses.meant(self._slice.target, ())
            waiting = self._variables.waiting.get(meaning[0])
            text = self._variables.text(meaning).text
            block.lines.append(Line(text, True, waiting.words if waiting is not None else ()))
        else:
            self._shown -= len(self._variables.waiting)
        lines = [*head, *printed(block.lines)]
        hidden = len(self._slice) - self._shown
        if hidden:
            ending = list(all_steps(self._slice, max(0, len(self._slice) - _LAST_STEPS)))
            lines.append(f"# {hidden:,} further steps are not shown; request.steps has all, which end with")
            lines += [_beginning(line) for line in ending]
        lines = [*self._unseen_texts("\n".join(lines)), *lines]
        if len(lines) > MOST_LINES:
            lines = [*heading(len(lines), lines[-ENDING:]), *lines]
        return "\n".join(lines)

    def _unseen_texts(self, code: str) -> list[str]:
        """Return comments with the texts, such as column names, that do not occur in the code.

        They are in omitted items of long lists, in later rounds of loops, or in steps beyond the last line.
        Texts that the code shows cut are not listed, since the code says that they are cut.
        """
        texts = dict.fromkeys(text for shape in self._slice.shapes for text in _texts_of(shape))
        lines = ["# texts that are not shown below:"]
        listed = 0
        for index, text in enumerate(texts):
            if len(text) > MAX_SHOWN or (shown := quoted(text)) in code:
                continue
            if listed == _MOST_TEXTS:
                return [*lines, f"#   and up to {len(texts) - index:,} further ones; request.steps has all"]
            listed += 1
            if len(lines[-1]) + len(shown) > self._width:
                lines.append("#  ")
            lines[-1] += f" {shown}"
        return lines if listed else []

    def _shape(self, step: int) -> Shape:
        return self._slice.shapes[self._slice.steps[step]]

    # -- blocks ----------------------------------------------------------------------------------------------

    def _block(self, items: Sequence[Item], number: int, loops: tuple[Loop, ...]) -> _Block:
        changed = [0]
        for item in items:
            changed.append(changed[-1] + changes(self._slice, item))
        return _Block(items, number, loops, changed)

    def _write_all(self, block: _Block) -> bool:
        """Print all items of a block; return False if the code became too long."""
        for index, item in enumerate(block.items):
            if self._written >= self._max_lines:
                return False
            if isinstance(item, Loop):
                if not self._write_loop(block, item):
                    return False
                continue
            operation = self._shape(item).operation
            if operation == ASSET:
                name, revision = self._shape(item).arguments
                number = self._slice.results[item]
                variable = self._variables.assets[name, revision]
                self._variables.name[number] = self._variables.hints[number] = variable
            elif operation == VALUE:
                self._write_value(block, item)
            elif not self._write_step(block, index, item):
                return False
            self._shown += len(self._same_step.get(item, (item,)))
        return True

    def _put(self, block: _Block, text: str, gradients: bool = True, words: Sequence[str] = ()) -> None:
        block.lines.append(Line(text, gradients or not self._graded, words))
        self._written += 1

    def _write_loop(self, block: _Block, loop: Loop) -> bool:
        variables, results = self._variables, self._slice.results
        if not block.loops:
            self._same_step.update(steps_like([loop]))
        inner = self._block(loop.rounds[0], self._uses.block(loop), (*block.loops, loop))
        after = self._write_initial(block, loop)
        for step in sorted(loop.collected):
            name = variables.called(results[step], variables.hint(step, ""))
            variables.lists[results[step]] = variables.new(f"all_{name.strip('_')}")
            self._put(block, f"{variables.lists[results[step]]} = []")
        self._written += 1
        whole = self._write_all(inner)
        for text in after:
            self._put(inner, text)
        counter = COUNTERS[len(block.loops)] if inner.counts else "_"
        header = f"for {counter} in range({len(loop.rounds)}):"
        block.lines.append(Line(header, any(line.gradients for line in inner.lines), body=inner.lines))
        return whole

    def _write_initial(self, block: _Block, loop: Loop) -> list[str]:
        """Print the initial values of a loop; return the lines to be printed at the end of each round.

        The first round takes these values from outside, under the names that later rounds use for results of
        the round before.
        """
        variables = self._variables
        after = []
        for made, reference in {made: reference for reference, made in loop.carried.items()}.items():
            number = self._slice.results[made]
            initial, which = self._uses.resolved(reference, block.loops)
            hint = variables.hint(made, variables.hints.get(initial, ""))
            if self._uses.is_read_late(loop, made) and number not in variables.before:
                variables.before[number] = variables.new(hint)
                hint += "_next"
            name = variables.called(number, hint)
            variables.hints[number] = hint
            text = variables.text((initial, which)).text
            waiting = variables.waiting.pop(initial, None) if which == HERE else None
            before = variables.before.get(number, name)
            if text != before:
                self._put(block, f"{before} = {text}", words=waiting.words if waiting is not None else ())
            if before != name:
                after.append(f"{before} = {name}")
        return after

    # -- steps -----------------------------------------------------------------------------------------------

    def _write_value(self, block: _Block, step: int) -> None:
        variables = self._variables
        (number,) = self._uses.references(step)
        if number not in variables.name:
            variables.name[number] = variables.new_value()
            described = harmless(self._slice.values[number].description[:_MAX_WORDS])
            words = [f"{described}, sent by the peer".lstrip(", ")]
            if len({self._uses.references(other)[0] for other in self._same_step.get(step, ())}) > 1:
                words.append("another one in each round")
            self._put(block, variables.name[number], words=words)
        variables.name[self._slice.results[step]] = variables.name[number]

    def _write_step(self, block: _Block, index: int, step: int) -> bool:
        """Print a step; return False if the code became too long."""
        variables = self._variables
        number = self._slice.results[step]
        changing, words = self._remarks(block, step)
        shape, meanings = self._with_lists(self._shape(step), step, block.loops)
        hint = variables.hint(step, variables.hints.get(meanings[0][0], "") if meanings else "")
        used = number > 0 and (self._uses.counts[number] > 0 or number in self._uses.kept)
        augment = used and self._is_augmented(shape, number, meanings)
        if augment:
            variables.name[number] = variables.name[meanings[0][0]]
            variables.own.add(number)
            hint = variables.hints.get(meanings[0][0], hint)
            used = False
        until = variables.until(meanings)
        writes = shape.kind >= CHANGES_FIRST or any(
            variables.waiting[part].writes
            for part, which in meanings
            if which == HERE and part in variables.waiting
        )
        waits = used and self._can_wait(block, index, step, number, until, writes=writes)
        if number:
            variables.hints.setdefault(number, hint)
        name = "" if waits or not used else f"{variables.called(number, hint)} = "
        width_left = self._width - 4 * (len(block.loops) + (self._graded and not shape.gradients))
        width_left -= _RESERVED_WIDTH if waits else len(name)
        text = self._fitting(block, shape, meanings, changing, used, augment, width_left)
        if text is None:
            return False
        for meaning in dict.fromkeys(meanings):
            if meaning[1] == HERE and meaning[0] in variables.waiting:
                words += variables.waiting.pop(meaning[0]).words
        if waits:
            variables.waiting[number] = Waiting(text, hint, shape.gradients, words, until, writes)
        else:
            self._put(block, name + text.text, shape.gradients, words)
        if number in variables.lists:
            self._put(block, f"{variables.lists[number]}.append({variables.name[number]})", shape.gradients)
        return True

    def _remarks(self, block: _Block, step: int) -> tuple[dict[int, Text], list[str]]:
        """Return the literals that change between rounds, and further comments on a step."""
        changing: dict[int, Text] = {}
        words: list[str] = []
        if step in self._same_step:
            # no formula for literals of inner loops: they may depend on two counters
            variable = "" if len(block.loops) > 1 else COUNTERS[0]
            differing = differences(self._slice, self._same_step[step], variable)
            changing, words = differing.changing, list(differing.words)
            block.counts |= len(changing) > len(words)
        words += words_of(self._shape(step).settings)
        if self._slice.results[step] in self._uses.twice:
            words.append("one of several steps that claim to make this")
        return changing, words

    def _fitting(
        self,
        block: _Block,
        shape: Shape,
        meanings: Sequence[Meaning],
        changing: dict[int, Text],
        used: bool,
        augment: bool,
        width_left: int,
    ) -> Text | None:
        """Return the text of a step. If it is too long, its longest parts get names, as many as needed.

        Return None if no lines are left for these names.
        """
        variables = self._variables
        least = 1
        while True:
            texts = [variables.text(meaning) for meaning in meanings]
            text = expression(shape, texts, changing, used=used, augment=augment)
            waiting = [number for number, which in meanings if which == HERE and number in variables.waiting]
            # omitted items of a long list may be waiting expressions, which must be printed
            is_cut = "items(" in text.text
            if not waiting or (len(text.text) <= width_left and not is_cut):
                return text
            excess = math.inf if is_cut else len(text.text) - width_left
            longest = sorted(waiting, key=lambda number: -len(variables.waiting[number].text.text))
            for taken, number in enumerate(longest, 1):
                if self._written >= self._max_lines:
                    return None
                part = variables.waiting.pop(number)
                name = variables.called(number, part.hint)
                self._put(block, f"{name} = {part.text.text}", part.gradients, part.words)
                excess -= len(part.text.text) - len(name)
                if excess <= 0 and taken >= least:
                    break
            least *= 2  # names within an omitted part shorten nothing; doubling bounds the number of turns

    def _can_wait(
        self, block: _Block, index: int, step: int, number: int, until: float, *, writes: bool
    ) -> bool:
        """Return True if a result can be printed where it is used, without a name.

        Its only use must be in this block, with nothing between that changes an object or a variable. If its
        own expression `writes`, nothing at all may be between.
        """
        if self._uses.counts[number] != 1 or number in self._uses.kept or number in self._uses.twice:
            return False
        block_number, user = self._uses.user[number]
        if block_number != block.number or user <= index:
            return False
        if block.changed[user] > block.changed[index + 1]:
            return False
        if writes and user > index + 1:
            return False
        if self._shape(step).settings:
            return False  # the comment on its settings is for this step alone
        gradients = self._shape(step).gradients or not self._graded
        item = block.items[user] if user < len(block.items) else None
        if not isinstance(item, int):
            return gradients and until == math.inf
        if item > until:
            return False
        later = self._shape(item)
        if later.settings:
            return False
        if augments(later) and self._uses.references(item)[0] == number:
            return False  # it may become `x += y`
        return gradients == (later.gradients or not self._graded)

    def _is_augmented(self, shape: Shape, number: int, meanings: Sequence[Meaning]) -> bool:
        """Return True if the step means `x = operator.iadd(x, y)`, where the old x is not used later."""
        if not augments(shape):
            return False
        target, which = meanings[0]
        return (
            which == HERE
            and target in self._variables.own
            and self._uses.counts[target] == 1
            and not {number, target} & self._uses.kept
        )

    # -- lists of the results of all rounds ------------------------------------------------------------------

    def _with_lists(self, shape: Shape, step: int, loops: Sequence[Loop]) -> tuple[Shape, list[Meaning]]:
        """Return the meanings of a step's references, and its shape.

        An argument that contains every item that a loop has collected is replaced by the name of the whole
        list.
        """
        count = len(self._uses.references(step))
        meanings = [self._uses.resolved((step, number), loops) for number in range(count)]
        if all(which < 0 for _, which in meanings):
            return shape, meanings
        arguments, found, first = [], [], 0
        for argument in shape.arguments:
            size = references_in(argument)
            part = meanings[first : first + size]
            first += size
            if type(argument) is list and argument[0] == "l" and size == len(argument) - 1:
                number = part[0][0] if part else 0
                rounds = self._uses.rounds.get(number, 0)
                if part == [*((number, round_) for round_ in range(rounds - 1)), (number, HERE)]:
                    argument, part = [0], [(number, ALL)]
            arguments.append(argument)
            found += part
        return dataclasses.replace(shape, arguments=arguments), [*found, *meanings[first:]]
