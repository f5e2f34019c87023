"""Eleven cycles of work, after which all processes hold what they held before. The weekly job has more."""

from __future__ import annotations

import sys

import pytest

from duetlink.settings import PATHS
from tests.soak.soak import soak

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="what a process holds is as Linux tells it"),
    pytest.mark.timeout(900),  # eleven cycles, however busy the machine is
]


def test_nothing_rises_from_cycle_to_cycle() -> None:
    samples = soak(0.0, reshares=True, group=True, only=PATHS)
    assert not samples.leaks, "\n".join(str(series) for series in samples.leaks)
    judged = {series.process for series in samples.series if series.is_judged}
    assert judged >= {"owner", "owner's worker", "scientist", "ann", "ben", "cleo"}
