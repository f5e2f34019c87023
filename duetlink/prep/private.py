"""Bounds from private data, with noise: what `fit_private` puts in place of each `within=`."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from duetlink.compute.prep.spec import PrepSpec
from duetlink.compute.prep.steps import Bounded, Step
from duetlink.compute.privacy.release import plan
from duetlink.compute.privacy.statistic import MIN_EPSILON, QUANTILE, Statistic
from duetlink.duet.objects.budget import Budget
from duetlink.errors import PrepError, SettingError
from duetlink.prep.engines.choice import opened
from duetlink.prep.prepared import Prepared

if TYPE_CHECKING:
    from duetlink.compute.privacy.ledger import Ledger

_DIGITS = 9  # of each share: what is rounded away is not spent


def fitted(
    spec: PrepSpec,
    source: Any,
    budget: Any,
    quantiles: tuple[float, float],
    ledger: Ledger | None,
    asset: str,
    engine: Any,
) -> tuple[Step, ...]:
    """The steps with bounds; see `Prep.fit_private`."""
    allowed = budget if isinstance(budget, Budget) else Budget(budget)
    places = [n for n, step in enumerate(spec.steps) if isinstance(step, Bounded) and step.bounds is None]
    if not places:
        raise SettingError("no bounds are open: write scale(column, within=(lowest, highest))")
    if ledger is not None and not asset:
        raise SettingError("a ledger charges an asset: say which, asset=…")
    low, high = quantiles
    if not 0 <= low < high <= 1:
        raise SettingError(f"quantiles are two shares, the lower one first, not {quantiles!r}")
    share = (allowed.total / (2 * len(places))).quantize(Decimal(1).scaleb(-_DIGITS), "ROUND_DOWN")
    if float(share) < MIN_EPSILON:
        raise SettingError(
            f"epsilon {allowed.total} leaves less than {MIN_EPSILON} for each quantile: give more"
        )
    source = opened(source, engine)
    for place in places:
        if not PrepSpec(_closed(spec, place)).row_stable:
            raise SettingError(
                f"the steps before {spec.steps[place].name} of {_step(spec, place).column!r} may fail for a "
                "row, or depend on others: cast with invalid='missing', one_hot with unknown='ignore', split "
                "with by="
            )
        Prepared(
            PrepSpec(_closed(spec, place)), source
        )  # columns and types are right before anything is paid
    plans = {
        (place, q): plan(
            Statistic(QUANTILE, float(share), bounds=_within(spec, place), q=q),
            max_contributions=allowed.rows_per_person,
        )
        for place in places
        for q in quantiles
    }
    if ledger is not None:
        columns = ", ".join(_step(spec, place).column for place in places)
        ledger.charge(asset, share * 2 * len(places), f"fit_private: bounds of {columns}"[:500])
    found = spec
    for place in places:
        before = Prepared(PrepSpec(found.steps[:place]), source)
        column = before.column(_step(spec, place).column)
        bounds = tuple(float(plans[place, q].release(column).value) for q in quantiles)
        found = dataclasses.replace(found, steps=_with_bounds(found, place, bounds))
    return found.steps


def _step(spec: PrepSpec, place: int) -> Bounded:
    step = spec.steps[place]
    assert isinstance(step, Bounded)
    return step


def _within(spec: PrepSpec, place: int) -> tuple[float, float]:
    within = _step(spec, place).within
    assert within is not None
    return float(within[0]), float(within[1])


def _closed(spec: PrepSpec, place: int) -> tuple[Any, ...]:
    """The steps before a place, with the widest bounds that each open one may get."""
    return tuple(
        dataclasses.replace(step, bounds=step.within, within=None)
        if isinstance(step, Bounded) and step.bounds is None
        else step
        for step in spec.steps[: place + 1]
    )


def _with_bounds(spec: PrepSpec, place: int, bounds: tuple[float, ...]) -> tuple[Any, ...]:
    step = _step(spec, place)
    low, high = bounds
    within = step.within or (0, 1)
    if all(isinstance(bound, int) for bound in within):
        low, high = round(low), round(high)
    if not low < high:
        raise PrepError(
            f"the private bounds of {step.column!r} came out as ({low}, {high}), which leaves no room: its "
            "budget is spent. Give a larger one, or a narrower within=",
            column=step.column,
        )
    made = dataclasses.replace(step, bounds=(low, high), within=None)
    return (*spec.steps[:place], made, *spec.steps[place + 1 :])
