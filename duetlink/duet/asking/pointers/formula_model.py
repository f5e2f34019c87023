"""Models of statsmodels by a formula: `smf.ols("y ~ x", data=frame)`, with `smf` from `duet.remote`."""

from __future__ import annotations

import inspect
import sys
from collections import ChainMap
from collections.abc import Mapping
from types import MethodType
from typing import Any

from duetlink.duet.asking.grammar.formula_design import Design
from duetlink.duet.asking.grammar.formula_text import constraints
from duetlink.duet.asking.grammar.syntax_tree import has_rows, placed
from duetlink.duet.asking.pointers.remote import Remote
from duetlink.duet.asking.pointers.remote_session import RemoteSession
from duetlink.duet.asking.pointers.result_requests import ResultRequests
from duetlink.duet.asking.recording.program import Program, is_remote
from duetlink.errors import OperationRefused

_RESULTS = frozenset({"fit", "fit_regularized", "get_robustcov_results"})
_OF_HYPOTHESES = frozenset({"f_test", "t_test", "wald_test"})
_OF_DATA = frozenset({"predict", "get_prediction"})


def is_by_formula(found: Any) -> bool:
    """Return True for a model's `from_formula`; statsmodels.formula.api has it as `ols`, `glm` and so on."""
    return (
        isinstance(found, MethodType)
        and found.__name__ == "from_formula"
        and isinstance(found.__self__, type)
    )


class FormulaModels:
    """Makes models of one class from formulas."""

    def __init__(self, kind: type, remote_session: RemoteSession) -> None:
        self._kind = kind
        self._remote_session = remote_session

    def __call__(self, *arguments: Any, **keywords: Any) -> OfFormula:
        """Make a model like the `from_formula` of the class, mostly `formula, data, subset=None`.

        `data` is a pointer to a frame. Names in the formula are its columns, or variables of the caller.

        Raises:
            OperationRefused: a part of the formula is not supported, or the levels of a factor are not
                known; the message says what to do.
        """
        program = self._remote_session.program()
        name = program.allowed.name_of(self._kind)
        if name is None or self._kind.__name__ not in _KNOWN:
            raise OperationRefused(
                f"{self._kind.__name__} is not made by a formula here; make the columns, and call the class "
                "by sm = duet.remote(statsmodels.api)"
            )
        caller = sys._getframe(1)
        variables = ChainMap(dict(caller.f_locals), caller.f_globals)
        options = _bound(self._kind, arguments, keywords)
        frame = _frame(program, options.pop("data"))
        subset = options.pop("subset", None)
        if subset is not None:
            frame = frame.loc[subset]
        return _made(program, name, self._kind, ModelCall(options.pop("formula"), frame, variables, options))

    def __repr__(self) -> str:
        return f"<{self._kind.__name__} by a formula, at the owner>"


def _bound(kind: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments by the names of `from_formula`. Raises TypeError as the class would."""
    bound = inspect.signature(kind.from_formula).bind(*arguments, **keywords).arguments
    if bound.pop("args", ()):
        raise OperationRefused("give what follows the data by its name")
    return {**bound.pop("kwargs", {}), **bound}


class ModelCall:
    """The arguments of a model: formula, frame, the caller's variables, and options of the class."""

    def __init__(
        self, formula: str, frame: Any, variables: Mapping[str, Any], options: dict[str, Any]
    ) -> None:
        for name in ("drop_cols", "vc_formula", "use_sparse", "eval_env"):
            if options.pop(name, None) is not None:
                raise OperationRefused(f"{name} is not known for a formula here; leave it out")
        self.formula = formula
        self.frame = frame
        self.variables = variables
        self.options = options


def _made(program: Program, name: str, kind: type, call: ModelCall) -> OfFormula:
    options = call.options
    grouped = kind.__name__ in ("GEE", "MixedLM")
    drop = options.get("missing", "none" if kind.__name__ == "MixedLM" else "drop") == "drop"
    design = Design(program, call.formula, call.variables)
    if not design.has_left:
        raise OperationRefused(f"{call.formula!r} has no left side: y ~ x")
    if grouped:
        _take_groups(program, kind, call, drop)
    left, right, keep = design.matrices(call.frame, drop=drop)
    most = getattr(kind, "_formula_max_endog", 1)
    if most is not None and left.mock.shape[1] > most:
        raise OperationRefused(
            f"the left side of {call.formula!r} makes {left.mock.shape[1]} columns; a truth value or text is "
            "made a number before: frame.assign(y=frame.y.astype(float))"
        )
    given = {key: _kept(program, option, call.frame, keep) for key, option in options.items()}
    if not drop:
        given["missing"] = "raise"
    model = program.call(name, kind, (left, right), given)
    return OfFormula(model, design)


def _take_groups(program: Program, kind: type, call: ModelCall, drop: bool) -> None:
    """Replace column names in the options by columns, and add the random effects of a mixed model."""
    options, frame = call.options, call.frame
    group = options.get("groups")
    if group is None:
        raise OperationRefused(f"{kind.__name__} needs groups=, the name of a column, or the column itself")
    called = group if isinstance(group, str) else "Group"
    for key in ("groups", "time", "offset", "exposure"):
        if isinstance(options.get(key), str):
            options[key] = frame[options[key]]
    if kind.__name__ == "MixedLM":
        import pandas as pd

        text = options.pop("re_formula", None) or "1"
        effects = Design(program, text, call.variables).matrices(frame, drop=False, left=False).right
        names = [str(column).replace("Intercept", called) for column in effects.mock.columns]
        parts = {new: effects[old] for new, old in zip(names, effects.mock.columns, strict=True)}
        options["exog_re"] = program.call("pandas.DataFrame", pd.DataFrame, (parts,), {})


def _kept(program: Program, option: Any, frame: Any, keep: Any) -> Any:
    """Drop the rows that the formula drops from an option that has one item for each row."""
    if keep is None:
        return option
    if not is_remote(option):
        if not has_rows(option) or option.shape[:1] != frame.mock.shape[:1]:
            return option
        option = placed(program, option)
    shape = getattr(option.mock, "shape", ())
    return option[keep] if shape[:1] == frame.mock.shape[:1] else option


def _frame(program: Program, data: Any) -> Any:
    """Convert `data` to a pointer to a pandas frame; local frames are placed at the owner."""
    if not is_remote(data):
        if not hasattr(data, "columns"):
            raise OperationRefused(f"data is a pointer to a frame, not a {type(data).__name__}")
        data = placed(program, data)
    if type(data.mock).__module__.startswith("polars."):
        data = data.to_pandas()
    if not hasattr(data.mock, "columns"):
        raise OperationRefused(f"data is a pointer to a frame, not to a {type(data.mock).__name__}")
    return data


class FormulaMatrices:
    """`dmatrices` and `dmatrix` of patsy, for a pointer to a frame."""

    def __init__(self, name: str, remote_session: RemoteSession) -> None:
        self._name = name
        self._remote_session = remote_session

    def __call__(self, formula: str, data: Any, **options: Any) -> Any:
        """Return pointers to frames (`return_type="dataframe"`): both sides, or the right one for `dmatrix`.

        Raises like FormulaModels.__call__.
        """
        program = self._remote_session.program()
        caller = sys._getframe(1)
        variables = ChainMap(dict(caller.f_locals), caller.f_globals)
        for option, value in options.items():
            if (option, value) not in (("NA_action", "drop"), ("return_type", "dataframe")):
                raise OperationRefused(
                    f"{option}={value!r} is not known here: frames are made, without missing rows"
                )
        design = Design(program, formula, variables)
        both = self._name == "dmatrices"
        if both is not design.has_left:
            raise OperationRefused(f"{self._name} takes {'y ~ x' if both else '~ x'}, not {formula!r}")
        left, right, _ = design.matrices(_frame(program, data))
        return (left, right) if both else right

    def __repr__(self) -> str:
        return f"<patsy.{self._name} at the owner>"


class OfFormula(ResultRequests, Remote):
    """A pointer to a model that was made by a formula, or to its results.

    New data for `predict` is transformed by the formula before the model gets it.
    """

    __slots__ = ("_design", "_pointer")

    def __init__(self, pointer: Any, design: Design) -> None:
        object.__setattr__(self, "_pointer", pointer)
        object.__setattr__(self, "_design", design)

    @property
    def _state(self) -> tuple[Program, Any, int]:  # type: ignore[override]
        found: tuple[Program, Any, int] = self._pointer._state
        return found

    @property
    def _hidden(self) -> int:  # type: ignore[override]
        hidden: int = self._pointer._hidden
        return hidden

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if name in _RESULTS:
            return lambda *arguments, **options: OfFormula(found(*arguments, **options), self._design)
        if name in _OF_DATA:
            return lambda exog=None, *arguments, **options: self._of_data(found, exog, *arguments, **options)
        if name in _OF_HYPOTHESES:
            return lambda r_matrix, *rest, **options: found(self._hypotheses(r_matrix), *rest, **options)
        return found

    def _of_data(self, found: Any, exog: Any, *arguments: Any, **options: Any) -> Any:
        """Call a method on a frame transformed by the formula; rows with missing values give missing ones."""
        if exog is None or not options.pop("transform", True):
            return found(exog, *arguments, **options) if exog is not None else found(*arguments, **options)
        program = self._program
        if isinstance(exog, Mapping):
            import pandas as pd

            exog = pd.DataFrame(exog)
        frame = _frame(program, exog)
        _, right, keep = self._design.matrices(frame, left=False)
        made = found(right, *arguments, **options, transform=False)
        reindexed = keep is not None and hasattr(made.mock, "reindex")
        return made.reindex(frame.index) if reindexed else made

    def _hypotheses(self, given: Any) -> Any:
        """Convert hypotheses given as texts to a matrix and its right side; return others unchanged."""
        texts = given if isinstance(given, list) else [given]
        if not texts or not all(isinstance(text, str) for text in texts):
            return given
        names = list(self._mock.model.data.cov_names)
        if getattr(self._mock.params, "ndim", 1) > 1 or not all(isinstance(name, str) for name in names):
            raise OperationRefused("a model of several equations takes hypotheses as a matrix here")
        return constraints(texts, names)

    def _title(self) -> str:
        title: str = self._pointer._title()
        return title


_KNOWN = frozenset(
    (
        *("GEE", "GLM", "GLS", "GLSAR", "Logit", "MNLogit", "MixedLM", "NegativeBinomial", "OLS", "Poisson"),
        *("Probit", "QuantReg", "RLM", "WLS"),
    )
)
