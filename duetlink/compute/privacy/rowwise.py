"""The operations on columns that are accepted on the way to a private statistic, each with its rule.

The rules are in `rules.py` and `conversions.py`. An operation that is not in these tables is refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from duetlink.compute.privacy import conversions, rules
from duetlink.compute.privacy.rules import Rule
from duetlink.compute.privacy.table import BOOL, FLOAT, INT, NARROW, NUMPY, PANDAS, POLARS, TORCH

_OPERATORS: Mapping[str, Rule] = {
    "operator.add": rules.arithmetic,
    "operator.sub": rules.arithmetic,
    "operator.mul": rules.arithmetic,
    "operator.truediv": rules.divide,
    "operator.floordiv": rules.divide_whole,
    "operator.mod": rules.divide_whole,
    "operator.pow": rules.power,
    "operator.neg": rules.same_number,
    "operator.pos": rules.same_number,
    "operator.abs": rules.same_number,
    "builtins.abs": rules.same_number,
    "operator.lt": rules.order,
    "operator.le": rules.order,
    "operator.gt": rules.order,
    "operator.ge": rules.order,
    "operator.eq": rules.equal,
    "operator.ne": rules.equal,
    "operator.and_": rules.logic,
    "operator.or_": rules.logic,
    "operator.xor": rules.logic,
    "operator.invert": rules.not_,
}

# functions that NumPy and torch have in common
_FUNCTIONS: Mapping[str, Rule] = {
    "add": rules.arithmetic,
    "subtract": rules.arithmetic,
    "multiply": rules.arithmetic,
    "divide": rules.divide,
    "negative": rules.same_number,
    "positive": rules.same_number,
    "absolute": rules.same_number,
    "square": rules.same_number,
    "sign": rules.same_number,
    "sqrt": rules.root,
    "floor": rules.whole,
    "ceil": rules.whole,
    "trunc": rules.whole,
    "minimum": rules.extreme,
    "maximum": rules.extreme,
    "fmin": rules.extreme,
    "fmax": rules.extreme,
    "where": rules.where,
    "less": rules.order,
    "less_equal": rules.order,
    "greater": rules.order,
    "greater_equal": rules.order,
    "not_equal": rules.equal,
    "logical_and": rules.logic,
    "logical_or": rules.logic,
    "logical_xor": rules.logic,
    "logical_not": rules.not_,
    "bitwise_and": rules.logic,
    "bitwise_or": rules.logic,
    "bitwise_xor": rules.logic,
    "isnan": rules.finite,
    "isfinite": rules.finite,
    "isinf": rules.finite,
}
_NUMPY: Mapping[str, Rule] = {
    **_FUNCTIONS,
    "floor_divide": rules.divide_whole,
    "remainder": rules.divide_whole,
    "equal": rules.equal,
    "invert": rules.not_,
    "rint": rules.whole,
    "round": rules.round_,
    "clip": rules.clip("a_min", "a_max"),
}
_TORCH: Mapping[str, Rule] = {
    **_FUNCTIONS,
    "sub": rules.arithmetic,
    "mul": rules.arithmetic,
    "div": rules.divide,
    "true_divide": rules.divide,
    "neg": rules.same_number,
    "abs": rules.same_number,
    "eq": rules.equal,  # not torch.equal, which returns one truth value for two whole tensors
    "ne": rules.equal,
    "lt": rules.order,
    "le": rules.order,
    "gt": rules.order,
    "ge": rules.order,
    "bitwise_not": rules.not_,
    "round": rules.whole,
    "clip": rules.clip("min", "max"),
    "clamp": rules.clip("min", "max"),
}

_COMPARE: Mapping[str, Rule] = {
    "eq": rules.equal,
    "ne": rules.equal,
    "lt": rules.order,
    "le": rules.order,
    "gt": rules.order,
    "ge": rules.order,
}
_METHODS: Mapping[str, Mapping[str, Rule]] = {
    NUMPY: {
        "clip": rules.clip("min", "max"),
        "round": rules.round_,
        "astype": conversions.cast(NUMPY),
        "copy": conversions.copy,
    },
    PANDAS: {
        **_COMPARE,
        "add": rules.arithmetic,
        "sub": rules.arithmetic,
        "mul": rules.arithmetic,
        "div": rules.divide,
        "truediv": rules.divide,
        "abs": rules.same_number,
        "round": rules.round_,
        "clip": rules.clip("lower", "upper"),
        "between": rules.between,
        "isin": rules.among,
        "isna": rules.missing,
        "isnull": rules.missing,
        "notna": rules.missing,
        "notnull": rules.missing,
        "fillna": rules.fill(FLOAT),
        "astype": conversions.cast(PANDAS),
        "to_numpy": conversions.to_numpy,
        "copy": conversions.copy,
    },
    POLARS: {
        **_COMPARE,
        "abs": rules.same_number,
        "sqrt": rules.root,
        "sign": rules.same_number,
        "floor": rules.whole,
        "ceil": rules.whole,
        "round": rules.round_,
        "clip": rules.clip("lower_bound", "upper_bound"),
        "is_between": rules.between,
        "is_in": rules.among,
        "is_null": rules.missing,
        "is_not_null": rules.missing,
        "is_nan": conversions.becomes(BOOL, FLOAT),
        "is_not_nan": conversions.becomes(BOOL, FLOAT),
        "is_finite": conversions.becomes(BOOL, FLOAT),
        "is_infinite": conversions.becomes(BOOL, FLOAT),
        "fill_null": rules.fill(FLOAT, INT),
        "fill_nan": rules.fill(FLOAT),
        "cast": conversions.cast(POLARS),
    },
    TORCH: {
        # without `where`: as a method its first argument is not the condition
        **{name: rule for name, rule in _TORCH.items() if name != "where"},
        "to": conversions.cast(TORCH),
        "double": conversions.becomes(FLOAT, BOOL, INT, NARROW, FLOAT),
        "float": conversions.becomes(FLOAT, BOOL, INT, NARROW, FLOAT),
        "long": conversions.becomes(INT, BOOL, INT, NARROW),
        "detach": conversions.copy,
        "clone": conversions.copy,
    },
}


def rule_of(operation: str, library: str) -> Rule | None:
    """Return the rule of an operation on columns of a library; None if it is not known to keep rows apart."""
    if operation in _OPERATORS:
        return _OPERATORS[operation]
    module, _, name = operation.partition(".")
    if not module:
        return _METHODS[library].get(name)
    if module == NUMPY and library in (NUMPY, PANDAS):
        return _NUMPY.get(name)
    return _TORCH.get(name) if module == TORCH == library else None
