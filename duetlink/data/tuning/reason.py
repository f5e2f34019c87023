"""Why a choice was made: a sentence or two for a person."""

from __future__ import annotations

from duetlink.base.quantities import rate_text
from duetlink.data.tuning.choice import Choice
from duetlink.data.tuning.compression import FEWEST_BYTES, LATENCY, LEAST_CPU
from duetlink.data.tuning.model import RAW, Figures, Line, rate


def reason(objective: str, best: Choice, figures: Figures, line: Line | None, news: str) -> str:
    """`line` is None while nobody knows the link's speed; `news` is what gave occasion to decide."""
    occasion = news[:1].upper() + news[1:] + ". " if news else ""
    link = f"The link carries {rate_text(line.goodput)}" if line else "How fast the link is, is not known yet"
    if best.raw:
        return f"{occasion}{link}, and no codec is worth it for this object: as it is."
    does = f"{best} encodes it at {rate_text(figures.encode)} per worker to {figures.ratio:.1%}"
    if objective == FEWEST_BYTES:
        return f"{occasion}{link}; {does}, the fewest bytes."
    if line is None:
        return f"{occasion}{link}; {does}, which costs little on any."
    times = rate(figures, line) / rate(RAW, line)
    aim = f" (objective: {objective})" if objective in (LEAST_CPU, LATENCY) else ""
    return f"{occasion}{link}, and {does}: {times:.2f} times as fast as raw{aim}."
