"""Lines of printed code, with their comments and their nesting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MOST_LINES = 100  # a longer text shows its last lines at the top
ENDING = 3  # lines


@dataclass(slots=True, eq=False)
class Line:
    """A statement, or the head of a loop."""

    text: str
    gradients: bool  # torch records gradients
    words: Sequence[str] = ()  # comments behind it
    body: list[Line] | None = None  # the body of a loop


def heading(count: int, ending: Sequence[str]) -> list[str]:
    """Return the comment above a text of `count` lines: it shows the end to readers who stop before it."""
    return [f"# \u2026 {count:,} lines, which end with \u2026", *(f"#   {line.strip()}" for line in ending)]


def printed(lines: Sequence[Line], indent: str = "", inside: bool = False) -> list[str]:
    """Return the lines as text, with `torch.no_grad()` around the steps that ran in it.

    `inside` says that an outer block has it already.
    """
    found = []
    before = True
    for line in lines:
        gradients = line.gradients or inside
        if before and not gradients:
            found.append(f"{indent}with torch.no_grad():")
        before = gradients
        inner = indent if gradients else f"{indent}    "
        words = f"  # {'; '.join(dict.fromkeys(line.words))}" if line.words else ""
        found.append(f"{inner}{line.text}{words}")
        if line.body is not None:
            found += printed(line.body, f"{inner}    ", inside or not gradients)
    return found
