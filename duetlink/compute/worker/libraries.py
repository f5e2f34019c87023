"""The libraries that a worker may be asked to have, and what they need before it is locked down, or after."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType

# the modules that are imported from each; others come with them, or on first use
LIBRARIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "numpy": ("numpy", "numpy.linalg", "numpy.fft", "numpy.random"),
        "scipy": ("scipy",),
        "pyarrow": ("pyarrow", "pyarrow.compute"),
        "narwhals": ("narwhals",),
        "pandas": ("pandas",),
        "polars": ("polars",),
        "torch": ("torch",),
        "sklearn": ("sklearn",),
        "statsmodels": ("statsmodels", "statsmodels.api"),
        # what trains privately within a function: found by name here, since it stands on a higher floor
        "duetlink": (
            "duetlink.learning.dp.training",
            "dp_accounting.pld",
            "dp_accounting.rdp",
            "scipy.signal",
            "scipy.optimize",
        ),
        "opendp": ("opendp.mod", "opendp.measurements", "opendp.transformations"),
    }
)


# what only functions use: steps have no such operations, and need not wait until it is imported
OF_FUNCTIONS = frozenset(("duetlink",))


def load(libraries: Iterable[str], threads: int) -> list[str]:
    """Import those that are installed, and numpy; returns which. One that cannot be imported is left out.

    Raises:
        ImportError: numpy cannot be imported.
    """
    loaded = []
    for library in dict.fromkeys(("numpy", *libraries)):
        if importlib.util.find_spec(library) is None:
            continue
        try:
            for module in LIBRARIES[library]:
                importlib.import_module(module)
        except Exception:
            if library == "numpy":
                raise
            traceback.print_exc()
        else:
            loaded.append(library)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for library in loaded:
            if library in _PREPARE:
                _PREPARE[library](threads)
    return loaded


def functions_of(loaded: Collection[str]) -> frozenset[str]:
    """The shared objects whose functions are looked up by name on first use."""
    return frozenset({sys.modules["opendp._lib"].lib._name} if "opendp" in loaded else ())


def settle(loaded: Collection[str]) -> None:
    """What is to be known to them in an environment that is empty."""
    if "pandas" in loaded:
        import pandas as pd

        pd.set_option("compute.use_numexpr", False)  # it rounds in its own way where there are many rows
    if "torch" in loaded:
        # its compiler, which comes along with its optimisers, insists on a directory that exists
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = "/"


def _prepare_torch(threads: int) -> None:
    import torch

    torch.set_num_threads(threads)


def _prepare_arrow(threads: int) -> None:
    import pyarrow as pa

    pa.set_cpu_count(threads)


def _prepare_polars(threads: int) -> None:
    """Its threads are made on first use, as many as the environment says."""
    import polars as pl

    pl.DataFrame({"a": [1, 2]}).lazy().filter(pl.col("a") > 1).collect()


def _prepare_sklearn(threads: int) -> None:
    """It loads once more what others have loaded, to limit their threads, and counts processors."""
    from sklearn.cluster import KMeans

    with contextlib.suppress(Exception):  # it may do without
        KMeans(1, n_init=1).fit([[0.0], [1.0]])
    with contextlib.suppress(Exception):
        importlib.import_module("joblib").cpu_count(only_physical_cores=True)


_PREPARE: Mapping[str, Callable[[int], None]] = {
    "polars": _prepare_polars,
    "pyarrow": _prepare_arrow,
    "sklearn": _prepare_sklearn,
    "torch": _prepare_torch,
}
