"""A sum of a group at two sites, by the public call over real networks: one copy crosses, by default."""

from __future__ import annotations

import pytest

from tests.lab.lab import Lab
from tests.lab.two_sites import TwoSites

pytestmark = pytest.mark.slow

SIZE_BYTES = 8_000_000
HEADERS = 1.15  # TLS, TCP and Ethernet take some 7 %, and heartbeats go beside the sum


def test_members_of_one_host_sum_before_anything_crosses_the_line(lab: Lab) -> None:
    with TwoSites(lab, 2, rate_mbit=100.0, delay_ms=2.5) as sites:
        explained = sites.explain(SIZE_BYTES)
        assert "> two_levels 0-1 2-3, 0-2 by " in explained
        summed = sites.sum(SIZE_BYTES)
        assert summed.is_equal
        assert max(summed.sent_bytes) < HEADERS * SIZE_BYTES
        flat = sites.sum(SIZE_BYTES, "ring")
        assert flat.is_equal
        assert min(flat.sent_bytes) > 1.5 * SIZE_BYTES
