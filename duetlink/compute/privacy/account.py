"""What a ledger's lines add up to: budget and spending of each asset, in exact decimals."""

from __future__ import annotations

import decimal
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from duetlink.errors import SettingError

BUDGET, CHARGE, REPAIR = "budget", "charge", "repair"
KINDS = (BUDGET, CHARGE, REPAIR)

MAX_TOTAL = Decimal(10) ** 6
_PLACES = 30  # behind the point; the shortest form of a float64 from MIN_EPSILON on has fewer
# Sums are exact or raise: at most 7 digits before the point and _PLACES behind it, more than can be charged.
_EXACT = decimal.Context(prec=60, traps=[decimal.Inexact, decimal.InvalidOperation, decimal.Overflow])

Amount = Decimal | int | float


@dataclass(frozen=True, slots=True)
class Posting:
    """One line of the ledger that is about an asset."""

    number: int
    when: str  # UTC, ISO 8601
    kind: str  # BUDGET: the total from now on; CHARGE; REPAIR: the ledger was damaged, the budget is closed
    asset: str
    epsilon: Decimal
    what: str  # a statistic in words, or why

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Posting:
        """Raises ValueError for a line that this version did not write."""
        if set(fields) != {"number", "when", "kind", "asset", "epsilon", "what", "previous", "hash"}:
            raise ValueError("it has other fields")
        texts = (fields["when"], fields["kind"], fields["asset"], fields["epsilon"], fields["what"])
        if any(type(text) is not str for text in texts) or fields["kind"] not in KINDS:
            raise ValueError("a field is of another type")
        try:
            epsilon = amount(Decimal(fields["epsilon"]))
        except (decimal.InvalidOperation, SettingError):
            raise ValueError("its epsilon is no amount") from None
        return cls(fields["number"], fields["when"], fields["kind"], fields["asset"], epsilon, fields["what"])


@dataclass(slots=True)
class Accounts:
    """All assets' budgets after a number of postings. A step takes in the next one."""

    totals: dict[str, Decimal] = field(default_factory=dict)
    spent: dict[str, Decimal] = field(default_factory=dict)

    def take(self, posting: Posting) -> None:
        asset = posting.asset
        if posting.kind == CHARGE:
            self.spent[asset] = plus(self.spent.get(asset, Decimal(0)), posting.epsilon)
        elif posting.kind == BUDGET:
            self.totals[asset] = posting.epsilon
        elif asset:
            self.totals[asset] = Decimal(0)
        else:
            self.totals = dict.fromkeys(self.totals, Decimal(0))

    def left(self, asset: str) -> Decimal:
        """Never negative, also where a budget was lowered below what had been spent."""
        total = self.totals.get(asset, Decimal(0))
        return max(_EXACT.subtract(total, self.spent.get(asset, Decimal(0))), Decimal(0))


def amount(epsilon: Amount) -> Decimal:
    """An amount of epsilon, from 0 on. A float counts as it is written: 0.1 is a tenth.

    Raises:
        SettingError: it is no such amount.
    """
    if isinstance(epsilon, bool) or not isinstance(epsilon, Decimal | int | float):
        raise SettingError(f"an epsilon is a number, not {type(epsilon).__name__}")
    found = Decimal(repr(float(epsilon))) if isinstance(epsilon, float) else Decimal(epsilon)
    if not found.is_finite() or not 0 <= found <= MAX_TOTAL:
        raise SettingError(f"an epsilon is from 0 to {MAX_TOTAL:,}")
    exponent = found.as_tuple().exponent
    if isinstance(exponent, int) and -exponent > _PLACES:
        raise SettingError(f"an epsilon has at most {_PLACES} digits behind the point")
    return found


def plus(first: Decimal, second: Decimal) -> Decimal:
    return _EXACT.add(first, second)


def written(epsilon: Decimal) -> str:
    """For a line and for a person: `0.1`, `10`, never `1E+1`."""
    text = format(epsilon, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
