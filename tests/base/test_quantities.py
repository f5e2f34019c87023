"""Sizes, rates and counts in words, from nothing to the largest."""

from __future__ import annotations

import pytest

from duetlink.base.quantities import count_text, rate_text, size_text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 B"), (1, "1 B"), (999.6, "1 kB"), (72e6, "72 MB"), (1.07e9, "1.07 GB"), (12e15, "12,000 TB")],
)
def test_a_size_has_three_digits_and_a_unit(size_bytes: float, text: str) -> None:
    assert size_text(size_bytes) == text


def test_a_rate_within_one_machine_is_in_gigabytes() -> None:
    assert [rate_text(rate) for rate in (0, 812e3, 84.2e6, 103_081e6)] == [
        "0 B/s", "812 kB/s", "84.2 MB/s", "103 GB/s",
    ]  # fmt: skip


def test_one_is_singular() -> None:
    assert [count_text(count, "time") for count in (0, 1, 2, 10**12)] == [
        "0 times", "1 time", "2 times", "1,000,000,000,000 times",
    ]  # fmt: skip
    assert count_text(1, "entry", "entries") == "1 entry"
    assert count_text(1234, "entry", "entries") == "1,234 entries"
