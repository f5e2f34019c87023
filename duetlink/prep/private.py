"""Computes the bounds and categories of `Prep.fit_private` from private data, with noise."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from duetlink.compute.privacy.categories import Selection, select
from duetlink.compute.privacy.release import ReleasePlan, plan
from duetlink.compute.privacy.statistic import MIN_EPSILON, QUANTILE, Statistic
from duetlink.data.prep.base import Step
from duetlink.data.prep.bounded import Bounded
from duetlink.data.prep.checks import MAX_CATEGORIES
from duetlink.data.prep.columns import fields_after
from duetlink.data.prep.fields import field_of
from duetlink.data.prep.one_hot import OneHot, check_category
from duetlink.data.prep.select import Select
from duetlink.data.prep.spec import PrepSpec
from duetlink.duet.objects.budget import Budget
from duetlink.errors import PrepError, SettingError
from duetlink.prep.engines.base import Opened
from duetlink.prep.engines.choice import opened
from duetlink.prep.prepared import Prepared

if TYPE_CHECKING:
    from duetlink.compute.privacy.ledger import Ledger

_DIGITS = 9  # decimal places of each share of epsilon; the rest is not spent


def fitted(
    spec: PrepSpec,
    source: Any,
    budget: Any,
    quantiles: tuple[float, float],
    delta: float | None,
    ledger: Ledger | None,
    asset: str,
    engine: Any,
) -> tuple[Step, ...]:
    """Return the steps with bounds and categories filled in; see `Prep.fit_private`."""
    allowed = budget if isinstance(budget, Budget) else Budget(budget)
    open_indices = [index for index, step in enumerate(spec.steps) if step.open_column]
    if not open_indices:
        raise SettingError(
            "no bounds or categories are open: write scale(column, within=(lowest, highest)), or "
            "one_hot(column, unknown='ignore')"
        )
    if ledger is not None and not asset:
        raise SettingError("a ledger charges an asset: say which, asset=…")
    low, high = quantiles
    if not 0 <= low < high <= 1:
        raise SettingError(f"quantiles are two shares, the lower one first, not {quantiles!r}")
    categories = [step.column for step in spec.steps if isinstance(step, OneHot) and step.open_column]
    if categories and delta is None:
        raise SettingError(
            f"categories of {', '.join(categories)} need delta=: the probability with which a value of one "
            "person alone may come out, well below 1 over the rows"
        )
    if delta is not None and not categories:
        raise SettingError("delta is for categories, and none are open")
    share = (allowed.total / (2 * len(open_indices))).quantize(Decimal(1).scaleb(-_DIGITS), "ROUND_DOWN")
    if float(share) < MIN_EPSILON:
        raise SettingError(
            f"epsilon {allowed.total} leaves less than {MIN_EPSILON} for each quantile: give more"
        )
    source = opened(source, engine)
    fits: dict[int, _Bounds | _Categories] = {}
    for index in open_indices:
        closed, step = _closed(spec, index, source), spec.steps[index]
        if not closed.row_stable or not (spec.split_step or closed).row_stable:
            raise SettingError(
                f"the steps before {step.name} of {step.open_column!r}, or the split, may fail for a row, or "
                "depend on others: cast with invalid='missing', one_hot with unknown='ignore', split with by="
            )
        # check columns and types before anything is charged
        Prepared(closed, source)
        _rows(closed.steps[:index], spec, index, source)
        most = allowed.rows_per_person
        if isinstance(step, Bounded):
            fits[index] = _bounds(step, float(share), quantiles, most)
        else:
            each = (delta or 0) / max(len(categories), 1)
            fits[index] = _categories(step, closed.steps[index], Fraction(share) * 2, each, most)
    if ledger is not None:
        ledger.charge(asset, share * 2 * len(open_indices), _what(fits, delta))
    found = spec
    for index, fit in fits.items():
        made = fit.released(_rows(found.steps[:index], spec, index, source))
        found = dataclasses.replace(found, steps=(*found.steps[:index], made, *found.steps[index + 1 :]))
    return found.steps


def _what(fits: Mapping[int, _Bounds | _Categories], delta: float | None) -> str:
    parts = []
    for kind, words in ((_Bounds, "bounds of "), (_Categories, "categories of ")):
        if columns := [fit.step.column for fit in fits.values() if isinstance(fit, kind)]:
            parts.append(words + ", ".join(columns))
    at = "" if delta is None else f"at delta {delta:g}: "
    return f"fit_private: {at}{'; '.join(parts)}"[:500]


def _closed(spec: PrepSpec, index: int, source: Opened) -> PrepSpec:
    """Return the steps up to number `index`, with placeholders in the open ones.

    Open bounds become the widest possible ones; open categories become one category of the column's type.

    Raises:
        PrepError: a column is missing, or has another type.
    """
    closed = PrepSpec()
    for step in spec.steps[: index + 1]:
        made = step
        if step.open_column:
            fields = fields_after(closed, source.fields)
            made = step.closed(field_of(fields, step.open_column, source.where).type)
        closed = dataclasses.replace(closed, steps=(*closed.steps, made))
    return closed


def _rows(before: tuple[Step, ...], spec: PrepSpec, index: int, source: Opened) -> Prepared:
    """Prepare the open column of step `index` by the steps before it. With a split, only train rows count.

    Raises:
        SettingError: the split comes later, and uses a column that changes before it.
        PrepError: a column is missing, or has another type.
    """
    column, split = spec.steps[index].open_column, spec.split_step
    if split is not None and split not in before:
        between = spec.steps[index : spec.steps.index(split)]
        if any(split.by in step.changes for step in between):
            raise SettingError(
                f"{split.by!r}, by which split tells rows apart, is changed behind "
                f"{spec.steps[index].name} of {column!r}, which is for the train part: put split before it"
            )
        before = (*before, split)  # splitting earlier selects the same rows
    found = Prepared(PrepSpec((*before, Select((column,)))), source)
    return found if split is None else found.train


@dataclasses.dataclass(frozen=True, slots=True)
class _Bounds:
    """The planned release of two quantiles, which become the bounds of a step."""

    step: Bounded
    plans: tuple[ReleasePlan, ReleasePlan]

    def released(self, rows: Prepared) -> Step:
        """Return the step with private bounds. Raises PrepError if they leave no room between them."""
        column = rows.column(self.step.column)
        low, high = (float(quantile.release(column).value) for quantile in self.plans)
        if all(isinstance(bound, int) for bound in self.step.within or ()):
            low, high = round(low), round(high)
        if not low < high:
            raise PrepError(
                f"the private bounds of {self.step.column!r} came out as ({low}, {high}), which leaves no "
                "room: its budget is spent. Give a larger one, or a narrower within=",
                column=self.step.column,
            )
        return dataclasses.replace(self.step, bounds=(low, high), within=None)


def _bounds(step: Bounded, epsilon: float, quantiles: tuple[float, float], rows_per_person: int) -> _Bounds:
    """Plan the release of the bounds of a step. Raises SettingError for an unusable epsilon."""
    assert step.within is not None
    within = float(step.within[0]), float(step.within[1])
    low, high = (
        plan(Statistic(QUANTILE, epsilon, bounds=within, q=q), max_contributions=rows_per_person)
        for q in quantiles
    )
    return _Bounds(step, (low, high))


@dataclasses.dataclass(frozen=True, slots=True)
class _Categories:
    """The planned release of noisy counts over a threshold, which select the categories of a step."""

    step: OneHot
    selection: Selection

    def released(self, rows: Prepared) -> Step:
        """Return the step with private categories. Raises PrepError if all are too rare."""
        import pyarrow.compute as pc

        counts: Counter[Any] = Counter()
        for batch in rows.batches():
            for found in pc.value_counts(batch.column(0).drop_null()):
                counts[found["values"].as_py()] += found["counts"].as_py()
        released = self.selection.release({key: n for key, n in counts.items() if _is_category(key)})
        if not released:
            raise PrepError(
                f"no category of {self.step.column!r} is frequent enough to come out: its budget is spent. "
                "Give a larger one, or a larger delta",
                column=self.step.column,
            )
        # a choice by noisy counts alone costs no further privacy
        most = sorted(released, key=lambda value: (-released[value], value))[:MAX_CATEGORIES]
        return dataclasses.replace(self.step, categories=tuple(sorted(most)))


def _categories(
    step: Step, closed: Step, epsilon: Fraction, delta: float, rows_per_person: int
) -> _Categories:
    """Plan the release of the categories of a step. Raises SettingError for an unusable epsilon or delta."""
    assert isinstance(step, OneHot)
    assert isinstance(closed, OneHot)
    (category,) = closed.categories or ()
    return _Categories(step, select(type(category), epsilon, delta, max_contributions=rows_per_person))


def _is_category(value: Any) -> bool:
    try:
        check_category(value)
    except SettingError:
        return False
    return True
