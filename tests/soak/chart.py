"""The series of a soak as rows of a table, each with a line of bars."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from tests.soak.proc import DESCRIPTORS
from tests.soak.samples import Series

HEADERS = ["process", "quantity", "each cycle", "first", "last", "least", "most", "leaks"]
BARS = "▁▂▃▄▅▆▇█"
WIDTH = 40
_SHOWN = ("processes", *DESCRIPTORS, "mappings", "mapped bytes", "threads", "private bytes")


def chart(all_series: Iterable[Series]) -> list[list[str]]:
    """Every quantity of every process that was judged; of objects, those that leak."""
    found = []
    for series in sorted(all_series, key=lambda each: (each.process, _place(each.quantity))):
        if series.is_judged and (series.quantity in _SHOWN or series.leak):
            values = series.values
            figures = (values[0], values[-1], min(values), max(values))
            cells = [series.process, series.quantity, bars(values), *(series.words(each) for each in figures)]
            cells.append(f"+{series.words(series.leak)}" if series.leak else "")
            found.append([f"[bold red]{cell}[/]" for cell in cells] if series.leak else cells)
    return found


def bars(values: Sequence[float]) -> str:
    """A bar for each value, or for the largest of each so many, between the least and the largest of all."""
    count = min(WIDTH, len(values))
    cuts = [round(len(values) * number / count) for number in range(count + 1)]
    tops = [max(values[begin:end]) for begin, end in pairwise(cuts)]
    low, span = min(values), max(values) - min(values)
    return "".join(BARS[int((top - low) / span * (len(BARS) - 1)) if span else 0] for top in tops)


def _place(quantity: str) -> tuple[int, str]:
    return (_SHOWN.index(quantity) if quantity in _SHOWN else len(_SHOWN), quantity)
