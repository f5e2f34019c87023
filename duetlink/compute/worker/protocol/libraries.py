"""The libraries that a room can import, and the set-up that they need before and after the lockdown."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import traceback
import warnings
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any

# the modules to import of each library; they import others themselves, or on first use
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
        # private training in approved functions. By name, since `learning` is above `compute` and not
        # imported
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


# only approved functions use these, so that rooms for programs need not wait for their import
OF_FUNCTIONS = frozenset(("duetlink",))


def load(libraries: Iterable[str]) -> list[str]:
    """Import numpy, and those of the libraries that are installed. Returns the names of the imported ones.

    The traceback of a library that fails to import goes to standard error.

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
    if "sklearn" in loaded:
        _look_up_for_sklearn()
    return loaded


def prepare(loaded: Collection[str], threads: int) -> None:
    """Start the libraries' threads, before the lockdown. Not for a zygote: its forks lose the threads."""
    set_threads(loaded, threads)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if "polars" in loaded:
            _start_polars()


def set_threads(loaded: Collection[str], threads: int) -> None:
    """Set the number of threads that the libraries may use for work from the calling thread."""
    if "torch" in loaded:
        sys.modules["torch"].set_num_threads(threads)
    if "pyarrow" in loaded:
        sys.modules["pyarrow"].set_cpu_count(threads)
    if "sklearn" in loaded:
        with contextlib.suppress(Exception):  # on failure the number stays as it was at import
            _thread_pools().limit(limits=threads)
    os.environ["POLARS_MAX_THREADS"] = str(threads)


def run_parallel_regions(loaded: Collection[str]) -> None:
    """Run each kind of parallel region that hangs in a fork if its parent process has entered it before.

    A zygote tests with it whether its forks can compute.
    """
    set_threads(loaded, 2)
    if "torch" in loaded:
        import torch

        matrix = torch.ones(256, 256, requires_grad=True)
        torch.autograd.backward((matrix @ matrix).sum())
        torch.ones(200_000).exp()
    if "sklearn" in loaded:
        import numpy as np
        from sklearn.cluster import KMeans

        KMeans(2, n_init=1, random_state=0).fit(np.arange(4_000.0).reshape(-1, 2))
    if "pyarrow" in loaded:
        import pyarrow as pa

        pa.table({"a": [1, 2, 2]}).group_by("a").aggregate([("a", "sum")])
    if "polars" in loaded:
        _start_polars()


def functions_of(loaded: Collection[str]) -> frozenset[str]:
    """Return the shared objects whose functions must stay callable by ctypes after the lockdown."""
    return frozenset({sys.modules["opendp._lib"].lib._name} if "opendp" in loaded else ())


def configure(loaded: Collection[str], threads: int) -> None:
    """Set what the libraries would otherwise read from the environment, which is empty after the lockdown."""
    if "polars" in loaded:
        import polars as pl

        os.environ["POLARS_MAX_THREADS"] = str(threads)
        pl.Config.load("{}")  # changes no option, but makes polars read the environment again
    if "pandas" in loaded:
        import pandas as pd

        pd.set_option("compute.use_numexpr", False)  # numexpr rounds differently if there are many rows
    if "torch" in loaded:
        configure_compiler()


def configure_compiler() -> None:
    """Set a cache directory that exists for torch's compiler.

    Torch's optimisers import the compiler. Without the directory its import fails half-way and cannot be
    repeated.
    """
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = "/"


def _start_polars() -> None:
    """Run a small query: polars starts its threads on first use."""
    import polars as pl

    pl.DataFrame({"a": [1, 2]}).lazy().filter(pl.col("a") > 1).collect()


def _look_up_for_sklearn() -> None:
    """Have scikit-learn find the loaded thread pools and count processors, as it does on first use.

    Nothing is computed, so that no pool of threads stays behind.
    """
    with contextlib.suppress(Exception):  # scikit-learn works without these results
        importlib.import_module("sklearn.cluster")
        pools = _thread_pools()
        pools.info()
        with pools.limit(limits=1):
            pass
    with contextlib.suppress(Exception):
        importlib.import_module("joblib").cpu_count(only_physical_cores=True)


def _thread_pools() -> Any:
    return importlib.import_module("sklearn.utils.parallel")._get_threadpool_controller()
