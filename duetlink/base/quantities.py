"""Format sizes, rates and counts for tables, the panel and messages."""

from __future__ import annotations


def size_text(size_bytes: float) -> str:
    """Return a size in decimal units with three digits: 1.07 GB."""
    for unit in ("B", "kB", "MB", "GB"):
        if size_bytes < 999.5:
            return f"{size_bytes:.0f} B" if unit == "B" else f"{size_bytes:.3g} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:.3g} TB" if size_bytes < 999.5 else f"{size_bytes:,.0f} TB"


def rate_text(bytes_per_s: float) -> str:
    """Return a rate in decimal units: 1.07 MB/s."""
    return f"{size_text(bytes_per_s)}/s"


def count_text(count: int, one: str, many: str = "") -> str:
    """Return `1 time`, `2 times`, `1,234 entries`; `many` is `one` with an s by default."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
