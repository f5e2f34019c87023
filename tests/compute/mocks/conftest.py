from __future__ import annotations

from tests.imported import libraries_out_of_the_collector_s_way

__all__ = ["libraries_out_of_the_collector_s_way"]
