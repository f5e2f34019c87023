"""A table that maps the functions in a serialised Polars expression to their Python calls.

A line has the serialised name, the method of the first input (or a function of `polars.`), and keywords:

- `name` and `name=field` take an option of the function, `name=.` the options themselves;
- `name=#2` takes an input, `name=#2?` one that may be missing; other inputs are passed by position;
- a mark after the field says how the option is serialised: `!` a name like `HalfToEven`, `~` a span of time,
  `^` a unit of time, `%` a type, `@` a time zone.

A function without a line is called by its own name with its options as keywords: `IsNotNan` is `is_not_nan`.
A wrong guess does no harm: the result is compared with the given expression (polars_expression.py).
"""

from __future__ import annotations

# namespaces of `Expr` by the group of functions
SPACES = {
    "ArrayExpr": "arr.",
    "BinaryExpr": "bin.",
    "Business": "dt.",
    "Categorical": "cat.",
    "ListExpr": "list.",
    "StringExpr": "str.",
    "StructExpr": "struct.",
    "TemporalExpr": "dt.",
}
GROUPS = frozenset((*SPACES, "Bitwise", "Boolean", "Pow", "Range", "Trigonometry"))

_LINES = """
ApproxNUnique      approx_n_unique
ArgWhere           arg_true
AsStruct           polars.struct
Atan2              polars.arctan2
Coalesce           polars.coalesce
Diff               diff null_behavior=.!
EwmMean            ewm_mean alpha=options.alpha adjust=options.adjust min_samples=options.min_periods ignore_nulls=options.ignore_nulls
EwmMeanBy          ewm_mean_by by=#1 half_life=half_life~
EwmStd             ewm_std alpha=options.alpha adjust=options.adjust bias=options.bias min_samples=options.min_periods ignore_nulls=options.ignore_nulls
EwmVar             ewm_var alpha=options.alpha adjust=options.adjust bias=options.bias min_samples=options.min_periods ignore_nulls=options.ignore_nulls
Interpolate        interpolate method=.!
Kurtosis           kurtosis fisher=.0 bias=.1
MaxHorizontal      polars.max_horizontal
MeanHorizontal     polars.mean_horizontal ignore_nulls
MinHorizontal      polars.min_horizontal
QCut               qcut quantiles=probs labels left_closed allow_duplicates include_breaks
Quantile           quantile interpolation=method!
Rank               rank method=options.method! descending=options.descending seed
Repeat             polars.repeat
ReplaceStrict      replace_strict default=#3? return_dtype=return_dtype%
RLE                rle
RLEID              rle_id
Round              round decimals mode=mode!
RoundSF            round_sig_figs digits
SearchSorted       search_sorted side=side! descending
ShiftAndFill       shift fill_value=#2
Skew               skew bias=.
SumHorizontal      polars.sum_horizontal ignore_nulls
Unique             unique maintain_order=.
ValueCounts        value_counts sort parallel name normalize

Bitwise.And        bitwise_and
Bitwise.Or         bitwise_or
Bitwise.Xor        bitwise_xor
Boolean.AllHorizontal  polars.all_horizontal
Boolean.AnyHorizontal  polars.any_horizontal
Boolean.IsBetween  is_between closed=closed!
Boolean.Not        not_
Business.AddBusinessDay  dt.add_business_days holidays=#2 week_mask roll=roll!
Business.BusinessDayCount  polars.business_day_count week_mask holidays=#2
Business.IsBusinessDay  dt.is_business_day holidays=#1 week_mask
Pow.Generic        pow
Range.DateRange    polars.date_range interval=interval~ closed=closed!
Range.DatetimeRange  polars.datetime_range interval=interval~ closed=closed! time_unit=time_unit^ time_zone=time_zone@
Range.IntRange     polars.int_range step dtype=dtype%
Range.IntRanges    polars.int_ranges dtype=dtype%
Range.LinearSpace  polars.linear_space closed=closed!
Range.TimeRange    polars.time_range interval=interval~ closed=closed!
Trigonometry.ArcCos   arccos
Trigonometry.ArcCosh  arccosh
Trigonometry.ArcSin   arcsin
Trigonometry.ArcSinh  arcsinh
Trigonometry.ArcTan   arctan
Trigonometry.ArcTanh  arctanh

ArrayExpr.Concat   polars.concat_arr
ArrayExpr.Get      arr.get null_on_oob=.
ArrayExpr.Join     arr.join ignore_nulls=.
ArrayExpr.Length   arr.len
ArrayExpr.Sort     arr.sort descending nulls_last
ArrayExpr.Std      arr.std ddof=.
ArrayExpr.Var      arr.var ddof=.
Categorical.EndsWith  cat.ends_with suffix=.
Categorical.StartsWith  cat.starts_with prefix=.
ListExpr.Concat    polars.concat_list
ListExpr.Diff      list.diff n null_behavior=null_behavior!
ListExpr.Gather    list.gather null_on_oob=.
ListExpr.Get       list.get null_on_oob=.
ListExpr.Join      list.join ignore_nulls=.
ListExpr.Length    list.len
ListExpr.Sort      list.sort descending nulls_last
ListExpr.Std       list.std ddof=.
ListExpr.ToArray   list.to_array width=.
ListExpr.ToStruct  list.to_struct fields=.
ListExpr.Var       list.var ddof=.
StringExpr.ConcatHorizontal  polars.concat_str separator=delimiter ignore_nulls
StringExpr.ConcatVertical  str.join delimiter ignore_nulls
StringExpr.CountMatches  str.count_matches literal=.
StringExpr.Extract  str.extract group_index=.
StringExpr.ExtractGroups  str.extract_groups pattern=pat
StringExpr.JsonDecode  str.json_decode dtype=.%
StringExpr.Lowercase  str.to_lowercase
StringExpr.PadEnd  str.pad_end fill_char
StringExpr.PadStart  str.pad_start fill_char
StringExpr.Split   str.split inclusive=.
StringExpr.SplitExact  str.split_exact n inclusive
StringExpr.SplitN  str.splitn n=.
StringExpr.Titlecase  str.to_titlecase
StringExpr.ToInteger  str.to_integer base=#1 dtype=dtype% strict
StringExpr.Uppercase  str.to_uppercase
StringExpr.ZFill   str.zfill
StructExpr.FieldByName  struct.field name=.
StructExpr.RenameFields  struct.rename_fields names=.
TemporalExpr.CastTimeUnit  dt.cast_time_unit time_unit=.^
TemporalExpr.Combine  dt.combine time_unit=.^
TemporalExpr.ConvertTimeZone  dt.convert_time_zone time_zone=.@
TemporalExpr.DatetimeFunction  polars.datetime ambiguous=#7 time_unit=time_unit^ time_zone=time_zone@
TemporalExpr.DSTOffset  dt.dst_offset
TemporalExpr.Duration  polars.duration weeks=#0 days=#1 hours=#2 minutes=#3 seconds=#4 milliseconds=#5 microseconds=#6 nanoseconds=#7 time_unit=.^
TemporalExpr.Replace  dt.replace year=#1 month=#2 day=#3 hour=#4 minute=#5 second=#6 microsecond=#7 ambiguous=#8
TemporalExpr.ReplaceTimeZone  dt.replace_time_zone time_zone=.0@ ambiguous=#1 non_existent=.1!
TemporalExpr.TimeStamp  dt.timestamp time_unit=.^
TemporalExpr.ToString  dt.strftime format=.
TemporalExpr.WeekDay  dt.weekday
"""  # noqa: E501 - one line for each

LINES: dict[str, list[str]] = {line.split()[0]: line.split()[1:] for line in _LINES.split("\n") if line}

OPERATORS = {
    "And": "operator.and_",
    "Divide": "operator.truediv",
    "Eq": "operator.eq",
    "EqValidity": ".eq_missing",
    "FloorDivide": "operator.floordiv",
    "Gt": "operator.gt",
    "GtEq": "operator.ge",
    "Lt": "operator.lt",
    "LtEq": "operator.le",
    "Minus": "operator.sub",
    "Modulus": "operator.mod",
    "Multiply": "operator.mul",
    "NotEq": "operator.ne",
    "NotEqValidity": ".ne_missing",
    "Or": "operator.or_",
    "Plus": "operator.add",
    "TrueDivide": "operator.truediv",
    "Xor": "operator.xor",
}
