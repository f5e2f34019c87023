"""Explanations for people: why an operation does not keep rows apart, and what to use instead.

These texts decide nothing. `rowwise.py` and `selection.py` decide which operations are accepted.
"""

from __future__ import annotations

_WHY = (
    (
        "computes one value from many rows, so that one person changes every row that it is used with: use a "
        "number that you know, such as one that was released before",
        "sum mean median min max amin amax std var any all len prod count quantile percentile norm average "
        "mode nunique describe first last item argmax argmin idxmax idxmin count_nonzero nansum nanmean corr",
    ),
    (
        "computes a row from other rows, which one person may change: use the row alone",
        "cumsum cumprod cummax cummin diff shift rolling ewm expanding rank interpolate ffill bfill "
        "pct_change gradient convolve roll cumulative_sum unwrap pad factorize cut qcut softmax normalize",
    ),
    (
        "moves rows: a statistic does not depend on their order, so leave it out",
        "sort sort_values sort_index argsort sorted flip reverse permute shuffle partition lexsort transpose "
        "reset_index set_index reindex T",
    ),
    (
        "chooses rows by their position or label, which change when a row is added: choose them by a "
        "condition on the data, such as table[table['x'] > 3]",
        "head tail iloc loc iat at take sample slice limit nth top_k nlargest nsmallest unique "
        "drop_duplicates index_select gather choose compress extract nonzero masked_select drop xs squeeze",
    ),
    (
        "may repeat a row many times, so that one person counts as many: leave it out",
        "concat concatenate append repeat tile merge join explode stack hstack vstack cat broadcast_to "
        "expand outer meshgrid kron extend melt pivot resize column_stack",
    ),
    (
        "combines rows: make a histogram, or filter one group after the other",
        "groupby group_by agg aggregate resample value_counts pivot_table crosstab unstack bincount",
    ),
    (
        "is not exact, so that the last bit of a row may depend on its position: let the owner share a "
        "column with the result",
        "exp log log2 log10 log1p expm1 exp2 sin cos tan tanh sinh cosh arcsin arccos arctan arctan2 power "
        "sigmoid cbrt hypot float_power logaddexp asin acos atan atan2 rsqrt erf",
    ),
    (
        "gives the rows another form: take a column, and keep its form",
        "reshape ravel flatten view unsqueeze expand_dims swapaxes matmul dot mm einsum inner",
    ),
    (
        "calls a function or runs a text as a program: write it with operators, such as (x > 3) & (y < 5)",
        "apply map applymap pipe transform eval query map_elements assign",
    ),
)
_BY_NAME = {name: why for why, names in _WHY for name in names.split()}
_OTHER = (
    "is not known to keep rows apart: you can use columns, filters by conditions, arithmetic, comparison, "
    "clip and where, each with numbers or with columns of the same asset"
)


def advice(operation: str) -> str:
    """Return the half sentence that follows the operation's name in a refusal."""
    if operation.startswith("polars."):
        return "polars expressions are not analysed: take columns, and rows by frame.filter(frame['x'] > 3)"
    return f"it {_BY_NAME.get(operation.lstrip('.@').rpartition('.')[2], _OTHER)}"
