"""The charge of a function to the budgets of the assets that it gets.

Theory. With probability delta, everything about some row may be revealed. A peer that asks often, each time
for almost no epsilon and a delta of nearly 1 over the rows, would get one row after another. So a budget pays
for delta as well: all of it for a delta of 1 over the rows, half of it for half of that. The charge is this
amount or the function's epsilon, whichever is more, so the deltas of everything that was paid for add up to
at most 1 over the rows.
"""

from __future__ import annotations

import decimal
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from duetlink.compute.privacy.account import amount, plus, written
from duetlink.compute.privacy.claim import Claim
from duetlink.compute.privacy.ledger import Ledger

_STEP = Decimal("1e-9")  # the cost of delta is rounded up to a multiple of this


@dataclass(frozen=True, slots=True)
class BudgetCharge:
    """A charge of `epsilon` to the budget of `asset`, of which `left` remains before it."""

    asset: str
    epsilon: Decimal
    left: Decimal
    for_delta: bool = False  # `epsilon` is the cost of delta, which exceeds the claimed epsilon

    @property
    def is_covered(self) -> bool:
        """True if enough is left."""
        return self.epsilon <= self.left

    def __str__(self) -> str:
        why = f" (its delta costs epsilon {written(self.epsilon)})" if self.for_delta else ""
        if not self.is_covered:
            return f"epsilon {written(self.left)} is left for {self.asset!r}{why}"
        after = plus(self.left, self.epsilon.copy_negate())
        return f"epsilon {written(self.left)} is left for {self.asset!r}, {written(after)} after it{why}"


def planned_charges(
    ledger: Ledger, rows_by_asset: Mapping[str, int], claim: Claim
) -> tuple[BudgetCharge, ...]:
    """Return what a function with this claim would be charged now, one charge for each asset.

    Blocks while another process holds the ledger.

    Raises:
        AuditUnavailable, AuditBroken: the ledger cannot be read.
    """
    return tuple(_charge(ledger, asset, rows, claim) for asset, rows in rows_by_asset.items())


def _charge(ledger: Ledger, asset: str, rows: int, claim: Claim) -> BudgetCharge:
    epsilon, total = amount(claim.epsilon), ledger.total(asset) or Decimal(0)
    with decimal.localcontext(prec=60):
        for_delta = (total * max(rows, 1) * Decimal(repr(claim.delta))).quantize(_STEP, decimal.ROUND_UP)
    return BudgetCharge(asset, max(epsilon, for_delta), ledger.left(asset), for_delta > epsilon)


def refusal(charges: tuple[BudgetCharge, ...], claim: Claim) -> str:
    """Return the reason why a function cannot be run with what is left; empty if it can."""
    for charge in charges:
        if not charge.is_covered:
            return (
                f"the function claims {claim}, and {charge}: deny it, or share the asset with a larger budget"
            )
    return ""
