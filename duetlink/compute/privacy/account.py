"""The arithmetic of a ledger: budget and spending of each asset, summed from its lines in exact decimals."""

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
_DECIMALS = 30  # after the point; the shortest decimal form of a float64 of at least MIN_EPSILON has fewer
# Sums are exact or raise: 60 digits hold 7 before the point and _DECIMALS after it, more than can be charged.
_EXACT = decimal.Context(prec=60, traps=[decimal.Inexact, decimal.InvalidOperation, decimal.Overflow])

Amount = Decimal | int | float


@dataclass(frozen=True, slots=True)
class Posting:
    """One line of the ledger that is about an asset."""

    number: int
    when: str  # UTC, ISO 8601
    kind: str  # BUDGET: sets the total; CHARGE: spends epsilon; REPAIR: closes budgets after a damage
    asset: str
    epsilon: Decimal
    what: str  # the statistic in words, or the reason

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Posting:
        """Read the fields of one line. Raises ValueError if this version could not have written it."""
        if set(fields) != {"number", "when", "kind", "asset", "epsilon", "what", "previous", "hash"}:
            raise ValueError("it does not have the fields of a ledger line")
        texts = (fields["when"], fields["kind"], fields["asset"], fields["epsilon"], fields["what"])
        if any(type(text) is not str for text in texts) or fields["kind"] not in KINDS:
            raise ValueError("a field has the wrong type, or the kind of line is unknown")
        try:
            epsilon = amount(Decimal(fields["epsilon"]))
        except (decimal.InvalidOperation, SettingError):
            raise ValueError("its epsilon is not a valid amount") from None
        return cls(fields["number"], fields["when"], fields["kind"], fields["asset"], epsilon, fields["what"])


@dataclass(slots=True)
class Accounts:
    """The budget and the spending of each asset, after some postings. `take` applies the next posting."""

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
        """Return budget minus spending; 0 if the budget was lowered below what had been spent."""
        total = self.totals.get(asset, Decimal(0))
        return max(_EXACT.subtract(total, self.spent.get(asset, Decimal(0))), Decimal(0))


def amount(epsilon: Amount) -> Decimal:
    """Convert to an exact amount, 0 or more. A float counts as its shortest decimal: 0.1 is exactly a tenth.

    Raises:
        SettingError: it is not a finite number from 0 to MAX_TOTAL, or has more than 30 decimals.
    """
    if isinstance(epsilon, bool) or not isinstance(epsilon, Decimal | int | float):
        raise SettingError(f"an epsilon must be a number, not {type(epsilon).__name__}")
    found = Decimal(repr(float(epsilon))) if isinstance(epsilon, float) else Decimal(epsilon)
    if not found.is_finite() or not 0 <= found <= MAX_TOTAL:
        raise SettingError(f"an epsilon must be from 0 to {MAX_TOTAL:,}; this one is {found}")
    exponent = found.as_tuple().exponent
    if isinstance(exponent, int) and -exponent > _DECIMALS:
        raise SettingError(f"an epsilon may have at most {_DECIMALS} digits after the decimal point")
    return found


def plus(first: Decimal, second: Decimal) -> Decimal:
    return _EXACT.add(first, second)


def written(epsilon: Decimal) -> str:
    """Format an amount for the ledger and for people: `0.1`, `10`, never `1E+1`."""
    text = format(epsilon, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
