"""What a function would take from the budget of an asset that it gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from duetlink.compute.privacy.account import amount, plus, written
from duetlink.compute.privacy.claim import Claim
from duetlink.compute.privacy.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Charge:
    """`epsilon` of the budget of `asset`, of which `left` may still be spent before it."""

    asset: str
    epsilon: Decimal
    left: Decimal

    @property
    def is_covered(self) -> bool:
        """Whether there is enough left."""
        return self.epsilon <= self.left

    def __str__(self) -> str:
        if not self.is_covered:
            return f"epsilon {written(self.left)} is left for {self.asset!r}"
        after = plus(self.left, self.epsilon.copy_negate())
        return f"epsilon {written(self.left)} is left for {self.asset!r}, {written(after)} after it"


def planned_charges(ledger: Ledger, assets: Sequence[tuple[str, int]], claim: Claim) -> tuple[Charge, ...]:
    """What a function that gets these assets, by name and revision, would be charged if it were run now.

    Blocks while another process holds the ledger.

    Raises:
        AuditUnavailable, AuditBroken: the ledger cannot be read.
    """
    epsilon = amount(claim.epsilon)
    return tuple(Charge(asset, epsilon, ledger.left(asset)) for asset, _ in assets)


def refusal(charges: Sequence[Charge], claim: Claim) -> str:
    """Why a function cannot be run with what is left; empty where it can."""
    for charge in charges:
        if not charge.is_covered:
            return (
                f"the function claims {claim}, and {charge}: deny it, or share the asset with a larger budget"
            )
    return ""
