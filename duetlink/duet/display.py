"""Tables for people: one set of rows, shown as HTML in a notebook and as text in a terminal.

Cells may contain the peer's words, so HTML is escaped (HTML in a notebook can run code), and control and
direction characters are escaped in both.
"""

from __future__ import annotations

import html
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from duetlink.base.wire.text import harmless
from duetlink.errors import MissingLibrary

MAX_CELL = 120  # characters
MAX_ROWS = 60  # a longer table shows its beginning and its end

T = TypeVar("T")

_STYLE = "text-align:left;padding:2px 10px 2px 0;vertical-align:top"


def imported_pandas() -> Any:
    """Import pandas for a `to_pandas`. Raises MissingLibrary."""
    try:
        import pandas
    except ImportError:
        raise MissingLibrary("to_pandas() needs pandas: pip install pandas") from None
    return pandas


@dataclass(frozen=True, slots=True)
class Table:
    """A table: headers, rows, a caption above, and the text to show if there are no rows."""

    caption: str
    headers: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    empty: str = "nothing yet"

    def __post_init__(self) -> None:
        # also for callers that read caption and rows directly
        object.__setattr__(self, "caption", harmless(self.caption))
        object.__setattr__(self, "rows", [tuple(map(harmless, row)) for row in self.rows])

    def display(self) -> None:
        """Show it below the cell in a notebook, on stdout elsewhere."""
        from IPython.display import display

        display(self)  # type: ignore[no-untyped-call]

    def _omission(self, count: int) -> tuple[str, ...]:
        """Return the row that stands for `count` rows that are left out."""
        return (f"… {count:,} more", *("" for _ in self.headers[1:]))

    def _repr_html_(self) -> str:
        title = f"<div><b>{_escaped(self.caption)}</b></div>"
        if not self.rows:
            return f"<div>{title}<div><i>{_escaped(self.empty)}</i></div></div>"
        head = ""
        if any(self.headers):
            head = "".join(f'<th style="{_STYLE}">{_escaped(text)}</th>' for text in self.headers)
        body = "".join(
            "<tr>" + "".join(f'<td style="{_STYLE}">{_escaped(cell)}</td>' for cell in row) + "</tr>"
            for row in shortened(self.rows, self._omission)
        )
        return f"<div>{title}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"

    def __repr__(self) -> str:
        from rich.console import Console
        from rich.table import Table as RichTable
        from rich.text import Text

        if not self.rows:
            return f"{visible(self.caption)}: {visible(self.empty)}"
        table = RichTable(
            title=Text(visible(self.caption)),
            title_justify="left",
            box=None,
            pad_edge=False,
            show_header=any(self.headers),
        )
        for text in self.headers:
            table.add_column(Text(visible(text)), overflow="fold")
        for row in shortened(self.rows, self._omission):
            table.add_row(*(Text(visible(cell)) for cell in row))
        out = io.StringIO()
        Console(file=out, width=110, no_color=True, force_terminal=False, force_jupyter=False).print(table)
        return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


class Displayed:
    """A base class for objects that show themselves as their `table()`: HTML in a notebook, text in a
    terminal.
    """

    __slots__ = ()

    def table(self) -> Table:
        """Return the object as a table."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


class Listing(Sequence[T], Displayed):
    """A snapshot of several objects of one kind, with a table of them."""

    def __init__(self, items: Sequence[T]) -> None:
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        return self._items[index]

    def __iter__(self) -> Iterator[T]:
        return iter(self._items)

    def __reversed__(self) -> Iterator[T]:
        return reversed(self._items)


def shortened(items: Sequence[T], omission: Callable[[int], T]) -> Sequence[T]:
    """Return the items; of many only the first and last ones, with `omission(count)` between them."""
    if len(items) <= MAX_ROWS:
        return items
    half = MAX_ROWS // 2
    return [*items[:half], omission(len(items) - 2 * half), *items[-half:]]


def visible(text: str) -> str:
    """Return the beginning of `text` on one line; characters that could hide or reorder others
    are escaped.
    """
    shown = harmless(text[: MAX_CELL + 1])
    return shown if len(text) <= MAX_CELL else shown[:MAX_CELL] + "…"


def by_words(by: str) -> str:
    """Return who answered, in words for the person on this side."""
    return "you" if by == "person" else by


def _escaped(text: str) -> str:
    return html.escape(visible(text))
