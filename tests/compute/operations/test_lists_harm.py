"""Nothing in the lists reads, writes, runs, or calls: by names, and by parameters."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

from duetlink.compute.operations.allow_lists.allowed import EFFECTS, LIBRARIES, LOCAL, Allowed
from duetlink.errors import OperationRefused
from tests.compute.operations.test_lists import (
    MODULES,
    found,
    full_name,
    library,
    listed_functions,
    members,
    subclasses,
)

__all__ = ["library"]  # a fixture

# Parts of names; what has one and may be there none the less, with the reason.
FORBIDDEN = {
    r"(^|_|\.)(read|write|scan|sink|load|dump|save|open|close)s?(_|$)": {
        ".load_state_dict": "takes tensors, from a dict that is there",
        ".is_close": "compares",
        "numpy.real_if_close": "compares",
    },
    r"to_(csv|pickle|sql|excel|hdf|json|parquet|feather|stata|clipboard|html|latex|markdown|string)": {},
    r"to_(file|disk|gbq|iceberg|delta|orc|xml)": {},
    r"pickle|marshal|serialize": {},
    r"(^|_|\.)(eval|exec|compile|jit|query|sql|script)(_|$)": {
        ".eval": "torch modules: a mode",
        "re.compile": "a pattern to look for in texts",
        "scipy.signal.cspline1d_eval": "a spline at points",
        "scipy.signal.qspline1d_eval": "a spline at points",
        "scipy.special.eval_": "a polynomial at a point",
    },
    r"(^|_|\.)(file|path|url|dir|socket|buffer|buf|ctypes|dlpack|memmap|storage|ptr)(_|$)": {
        ".coef_path_": "coefficients along a path of penalties",
        ".cost_complexity_pruning_path": "the steps of pruning a tree",
        ".decision_path": "the nodes that a row comes through",
        ".mse_path_": "errors along a path of penalties",
        ".json_path_match": "a path within a text",
    },
    r"hook|callback|apply_$|map_$|map2_|pipe$|(^|\.)partial$|vectorize|frompyfunc": {},
    r"(^|\.)format(_|$)|format_map": {
        "polars.format": "puts expressions into a text at {}, and walks nothing",
    },
    r"(^|\.)(getattr|setattr|delattr|attrgetter|methodcaller|itemgetter)$": {},
    r"(^|\.)(vars|dir|globals|locals|type|id|hash|super)$": {},
    r"(^|\.)__(?!(call|len|reversed|r\w+)__)": {},
    r"(^|\.)_": {
        ".__call__": "of a module, as Python calls it",
        ".__len__": "is answered by the mock",
        ".__reversed__": "as Python calls it",
        ".__r": "operators with the tensor on the right",
    },
    r"(^|\.)empty|new_empty|resize_|as_strided|(^|\.)set_$|frombuffer": {},
    r"set_option|printoptions|seterr|errstate|set_default|set_num|set_config|deterministic": {},
    r"^torch\.(ops|classes|library|hub|utils|package|multiprocessing|distributed|futures|fx|onnx|cuda)\.": {},
    r"(^|\.)(fetch_|FunctionTransformer|externals|datasets)": {},
}


def all_operations(library: str) -> Iterator[str]:
    yield from listed_functions(library)
    for _, kind, name in members(library):
        if kind in (*EFFECTS, LOCAL, "metadata_methods", "attributes", "settable"):
            yield f".{name}"


@pytest.mark.parametrize("pattern", FORBIDDEN)
def test_no_name_is_of_a_forbidden_kind(pattern: str) -> None:
    names = {name for library in LIBRARIES for name in all_operations(library)}
    bad = {name for name in names if re.search(pattern, name)}
    assert {
        name for name in bad if not any(name.startswith(allowed) for allowed in FORBIDDEN[pattern])
    } == set()


# What a list must not have: functions, or members of a class.
REFUSED = {
    "numpy": """
        load save savez loadtxt savetxt genfromtxt fromfile memmap frombuffer frompyfunc vectorize empty
        empty_like lib.stride_tricks.as_strided set_printoptions seterrcall
    """,
    "numpy ndarray": """
        tofile tobytes dump dumps data ctypes base setflags resize __array_interface__ __reduce__
    """,
    "torch": """
        load save hub.load jit.script compile from_file empty empty_like as_strided Tensor vmap
        ops.load_library sparse_csr_tensor utils.cpp_extension.load set_num_threads multiprocessing.Process
    """,
    "torch Tensor": """
        apply_ map_ register_hook storage untyped_storage data_ptr set_ share_memory_ resize_ as_strided
        new_empty __cuda_array_interface__ __dlpack__ __reduce_ex__ cuda _base __class__ __dict__
    """,
    "torch nn.Module": "apply register_forward_hook to_empty share_memory compile __setattr__ _parameters",
    "pandas": """
        read_csv read_pickle eval ExcelWriter HDFStore io.common.get_handle set_option
        testing.assert_frame_equal
    """,
    "pandas DataFrame": """
        to_csv to_pickle to_sql eval query pipe attrs flags style to_json __class__ _mgr __finalize__
    """,
    "pandas Series": "to_csv to_pickle pipe array attrs",
    "polars": "read_csv scan_parquet sql SQLContext map_batches Config set_random_seed fold Categorical",
    "polars DataFrame": "write_csv serialize pipe map_rows sql write_database plot",
    "polars LazyFrame": "sink_csv map_batches remote serialize sql collect_async pipe",
    "polars Expr": "map_elements map_batches pipe meta inspect rolling_map to_physical hash deserialize",
    "sklearn": """
        preprocessing.FunctionTransformer datasets.fetch_openml datasets.load_files set_config utils.Bunch
    """,
    "sklearn base.BaseEstimator": "__getstate__ _repr_html_ n_support_ support_",
    "statsmodels": "formula.api.ols api.load datasets.get_rdataset tsa.api.x13_arima_analysis",
    "statsmodels base.wrapper.ResultsWrapper": "save load remove_data",
    "python": """
        builtins.eval builtins.exec builtins.open builtins.getattr builtins.type builtins.object builtins.map
        builtins.__import__ operator.attrgetter operator.methodcaller operator.call functools.reduce
    """,
    "python builtins.str": "format format_map encode translate maketrans __class__ __format__",
    "python builtins.list": "append extend insert pop sort clear",
    "python builtins.dict": "update setdefault pop clear fromkeys",
}


@pytest.mark.parametrize("where", REFUSED)
def test_what_would_do_harm_is_in_no_list(where: str) -> None:
    library, _, class_ = where.partition(" ")
    pytest.importorskip(MODULES.get(library, library))
    allowed = Allowed([library])
    for name in REFUSED[where].split():
        if not class_:
            full = full_name(library, name)
            with pytest.raises(OperationRefused):
                allowed.function(full)
            with pytest.raises(OperationRefused):
                allowed.constant(full)
        else:
            here = found(full_name(library, class_))
            assert allowed.method(here, name) is None, name
            assert allowed.attribute(here, name) is None, name
            assert not allowed.settable(here, name), name


# Parameters that name a file; which callables have one none the less, and the reason why that is no harm.
PATHS = re.compile(
    r"(^|_)(path|paths|file|files|filename|filepath|fname|buf|buffer|dir|directory|stream|url|uri)(_|$)"
)
WITH_PATHS = {
    ".json_path_match": "json_path: keys within a text",
    "pandas.json_normalize": "record_path: keys within a JSON object",
    "sklearn.linear_model.Lars": "fit_path: whether all steps are kept",
    "sklearn.linear_model.LassoLars": "fit_path: whether all steps are kept",
    "sklearn.manifold.Isomap": "path_method: how distances are followed",
}


def signatures(library: str) -> Iterator[tuple[str, str]]:
    """Operation, and the name of one of its parameters."""
    for name in listed_functions(library):
        function = found(name)
        if function is not None:
            yield from ((name, parameter) for parameter in parameters_of(function))
    for class_, kind, name in members(library):
        if kind in EFFECTS:
            here = found(class_)
            for owner in (here, *subclasses(here)):
                if name in vars(owner):
                    yield from ((f".{name}", parameter) for parameter in parameters_of(getattr(owner, name)))


def parameters_of(function: Any) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


def test_no_parameter_names_a_file(library: str) -> None:
    bad = {(name, parameter) for name, parameter in signatures(library) if PATHS.search(parameter)}
    assert {(name, parameter) for name, parameter in bad if name not in WITH_PATHS} == set()
