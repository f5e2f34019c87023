"""What positions cost at least, and how their gaps are spread, where each is as likely as any other."""

from __future__ import annotations

import math


def bits_per_position(size: int, count: int) -> float:
    """The entropy of a geometric gap: H(p) / p bits for a density of p."""
    density = count / size if size else 0.0
    if not 0 < density < 1:
        return 0.0
    rest = 1 - density
    return -(density * math.log2(density) + rest * math.log2(rest)) / density
