"""The libraries that a room may be asked to have, and what they need before it is locked down, or after."""

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


def load(libraries: Iterable[str]) -> list[str]:
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
    if "sklearn" in loaded:
        _look_up_for_sklearn()
    return loaded


def prepare(loaded: Collection[str], threads: int) -> None:
    """Let the libraries have their threads, before the process is locked down. Not to be done where rooms are
    forked from.
    """
    set_threads(loaded, threads)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if "polars" in loaded:
            _start_polars()


def set_threads(loaded: Collection[str], threads: int) -> None:
    """How many threads the libraries may use, from now on, in this thread."""
    if "torch" in loaded:
        sys.modules["torch"].set_num_threads(threads)
    if "pyarrow" in loaded:
        sys.modules["pyarrow"].set_cpu_count(threads)
    if "sklearn" in loaded:
        with contextlib.suppress(Exception):  # then they are as many as when the libraries were loaded
            _thread_pools().limit(limits=threads)
    os.environ["POLARS_MAX_THREADS"] = str(threads)


def compute(loaded: Collection[str]) -> None:
    """Enter each kind of parallel region that hangs for ever in a fork of a process that has entered it."""
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
    """The shared objects whose functions are looked up by name on first use."""
    return frozenset({sys.modules["opendp._lib"].lib._name} if "opendp" in loaded else ())


def settle(loaded: Collection[str], threads: int) -> None:
    """What is to be known to them in an environment that is empty."""
    if "polars" in loaded:
        import polars as pl

        os.environ["POLARS_MAX_THREADS"] = str(threads)
        pl.Config.load("{}")  # changes no option; it reads the environment again, which it did when imported
    if "pandas" in loaded:
        import pandas as pd

        pd.set_option("compute.use_numexpr", False)  # it rounds in its own way where there are many rows
    if "torch" in loaded:
        settle_compiler()


def settle_compiler() -> None:
    """Torch's compiler, which comes along with its optimisers, insists on a directory that exists, or half of
    it is imported and it can never be.
    """
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = "/"


def _start_polars() -> None:
    """Its threads are made on first use."""
    import polars as pl

    pl.DataFrame({"a": [1, 2]}).lazy().filter(pl.col("a") > 1).collect()


def _look_up_for_sklearn() -> None:
    """It looks up the functions of what others have loaded, to limit their threads, and counts processors.
    Nothing is computed: no pool of threads is left behind.
    """
    with contextlib.suppress(Exception):  # it may do without
        importlib.import_module("sklearn.cluster")
        pools = _thread_pools()
        pools.info()
        with pools.limit(limits=1):
            pass
    with contextlib.suppress(Exception):
        importlib.import_module("joblib").cpu_count(only_physical_cores=True)


def _thread_pools() -> Any:
    return importlib.import_module("sklearn.utils.parallel")._get_threadpool_controller()
