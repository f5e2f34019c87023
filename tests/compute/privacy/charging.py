"""What several processes do to one ledger at once; by itself, so that they start quickly."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

from duetlink.compute.privacy.ledger import Ledger
from duetlink.errors import BudgetExceeded


def charge_often(path: Path, times: int, results: multiprocessing.Queue[int]) -> None:
    """Tell how many of so many charges of a tenth were paid."""
    ledger, paid = Ledger(path), 0
    for _ in range(times):
        try:
            ledger.charge("people", 0.1, "count")
            paid += 1
        except BudgetExceeded:
            pass
    results.put(paid)
