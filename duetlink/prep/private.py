"""Bounds and categories from private data, with noise: what `fit_private` puts where they are open."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from duetlink.compute.prep.fields import BOOL, TEXT, field_of, fields_after, names_of
from duetlink.compute.prep.spec import PrepSpec
from duetlink.compute.prep.steps import MAX_CATEGORIES, Bounded, Cast, OneHot, Select, Step, check_category
from duetlink.compute.privacy.categories import Selection, select
from duetlink.compute.privacy.release import Plan, plan
from duetlink.compute.privacy.statistic import MIN_EPSILON, QUANTILE, Statistic
from duetlink.duet.objects.budget import Budget
from duetlink.errors import PrepError, SettingError
from duetlink.prep.engines.base import Opened
from duetlink.prep.engines.choice import opened
from duetlink.prep.prepared import Prepared

if TYPE_CHECKING:
    from duetlink.compute.privacy.ledger import Ledger

_DIGITS = 9  # of each share: what is rounded away is not spent

Fit = tuple[Plan, Plan] | Selection


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
    """The steps with bounds and categories; see `Prep.fit_private`."""
    allowed = budget if isinstance(budget, Budget) else Budget(budget)
    places = [place for place, step in enumerate(spec.steps) if step.is_open]
    if not places:
        raise SettingError(
            "no bounds or categories are open: write scale(column, within=(lowest, highest)), or "
            "one_hot(column, unknown='ignore')"
        )
    if ledger is not None and not asset:
        raise SettingError("a ledger charges an asset: say which, asset=…")
    low, high = quantiles
    if not 0 <= low < high <= 1:
        raise SettingError(f"quantiles are two shares, the lower one first, not {quantiles!r}")
    columns = [step.column for step in spec.steps if isinstance(step, OneHot) and step.is_open]
    _check_delta(delta, columns)
    share = (allowed.total / (2 * len(places))).quantize(Decimal(1).scaleb(-_DIGITS), "ROUND_DOWN")
    if float(share) < MIN_EPSILON:
        raise SettingError(
            f"epsilon {allowed.total} leaves less than {MIN_EPSILON} for each quantile: give more"
        )
    source = opened(source, engine)
    fits: dict[int, Fit] = {}
    for place in places:
        closed = _closed(spec, place, source)
        if not closed.row_stable or not (spec.split_step or closed).row_stable:
            raise SettingError(
                f"the steps before {spec.steps[place].name} of {_column(spec.steps[place])!r}, or the split, "
                "may fail for a row, or depend on others: cast with invalid='missing', one_hot with "
                "unknown='ignore', split with by="
            )
        # columns and types are right before anything is paid
        Prepared(closed, source)
        _rows(closed.steps[:place], spec, place, source)
        fits[place] = _planned(
            closed.steps[place],
            spec.steps[place],
            share,
            quantiles,
            (delta or 0) / max(len(columns), 1),
            allowed,
        )
    if ledger is not None:
        ledger.charge(asset, share * 2 * len(places), _what(spec, places, delta))
    found = spec
    for place in places:
        before = _rows(found.steps[:place], spec, place, source)
        step, fit = spec.steps[place], fits[place]
        made: Step
        if isinstance(step, Bounded):
            assert not isinstance(fit, Selection)
            column = before.column(step.column)
            made = _with_bounds(step, tuple(float(one.release(column).value) for one in fit))
        else:
            assert isinstance(step, OneHot)
            assert isinstance(fit, Selection)
            made = _with_categories(step, fit.release(_counts(before)))
        found = dataclasses.replace(found, steps=(*found.steps[:place], made, *found.steps[place + 1 :]))
    return found.steps


def _check_delta(delta: float | None, columns: Sequence[str]) -> None:
    if columns and delta is None:
        raise SettingError(
            f"categories of {', '.join(columns)} need delta=: the probability with which a value of one "
            "person alone may come out, well below 1 over the rows"
        )
    if delta is not None and not columns:
        raise SettingError("delta is for categories, and none are open")


def _planned(
    closed: Step, step: Step, share: Decimal, quantiles: tuple[float, float], delta: float, allowed: Budget
) -> Fit:
    """The release of one place. Raises SettingError: epsilon or delta cannot be used."""
    if isinstance(closed, OneHot):
        assert closed.categories is not None
        kind = type(closed.categories[0])
        return select(kind, Fraction(share) * 2, delta, max_contributions=allowed.rows_per_person)
    assert isinstance(step, Bounded)
    assert step.within is not None
    within = float(step.within[0]), float(step.within[1])
    first, second = (
        plan(Statistic(QUANTILE, float(share), bounds=within, q=q), max_contributions=allowed.rows_per_person)
        for q in quantiles
    )
    return first, second


def _what(spec: PrepSpec, places: list[int], delta: float | None) -> str:
    parts = []
    for kind, words in ((Bounded, "bounds of "), (OneHot, "categories of ")):
        if columns := [_column(spec.steps[place]) for place in places if isinstance(spec.steps[place], kind)]:
            parts.append(words + ", ".join(columns))
    at = "" if delta is None else f"at delta {delta:g}: "
    return f"fit_private: {at}{'; '.join(parts)}"[:500]


def _column(step: Step) -> str:
    assert isinstance(step, Bounded | OneHot)
    return step.column


def _closed(spec: PrepSpec, place: int, source: Opened) -> PrepSpec:
    """The steps up to a place, with the widest bounds that each open one may get, and a category of the type.

    Raises PrepError: a column is not there, or of another type.
    """
    closed = PrepSpec()
    for step in spec.steps[: place + 1]:
        made = step
        if isinstance(step, Bounded) and step.is_open:
            made = dataclasses.replace(step, bounds=step.within, within=None)
        elif isinstance(step, OneHot) and step.is_open:
            kind = field_of(fields_after(closed, source.fields), step.column, source.where).type
            category: Any = "?" if kind == TEXT else True if kind == BOOL else 0
            made = dataclasses.replace(step, categories=(category,))
        closed = dataclasses.replace(closed, steps=(*closed.steps, made))
    return closed


def _rows(before: tuple[Step, ...], spec: PrepSpec, place: int, source: Opened) -> Prepared:
    """The column of a place behind the steps before it: of the rows to train with, wherever the split stands.

    Raises:
        SettingError: the split comes later, and by a column that changes until then.
        PrepError: a column is not there, or of another type.
    """
    column, split = _column(spec.steps[place]), spec.split_step
    if split is not None and split not in before:
        between = spec.steps[place : spec.steps.index(split)]
        if any(isinstance(step, Cast | Bounded | OneHot) and split.by in names_of(step) for step in between):
            raise SettingError(
                f"{split.by!r}, by which split tells rows apart, is changed behind "
                f"{spec.steps[place].name} of {column!r}, which is for the train part: put split before it"
            )
        before = (*before, split)  # the same rows
    found = Prepared(PrepSpec((*before, Select((column,)))), source)
    return found if split is None else found.train


def _counts(before: Prepared) -> Counter[Any]:
    """How many rows have each value that can be a category."""
    import pyarrow.compute as pc

    counts: Counter[Any] = Counter()
    for batch in before.batches():
        for found in pc.value_counts(batch.column(0).drop_null()):
            counts[found["values"].as_py()] += found["counts"].as_py()
    return Counter({value: count for value, count in counts.items() if _is_category(value)})


def _is_category(value: Any) -> bool:
    try:
        check_category(value)
    except SettingError:
        return False
    return True


def _with_categories(step: OneHot, released: dict[Any, int]) -> OneHot:
    if not released:
        raise PrepError(
            f"no category of {step.column!r} is frequent enough to come out: its budget is spent. Give a "
            "larger one, or a larger delta",
            column=step.column,
        )
    # what is made of noisy counts alone costs nothing further
    most = sorted(released, key=lambda value: (-released[value], value))[:MAX_CATEGORIES]
    return dataclasses.replace(step, categories=tuple(sorted(most)))


def _with_bounds(step: Bounded, bounds: tuple[float, ...]) -> Bounded:
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
    return dataclasses.replace(step, bounds=(low, high), within=None)
