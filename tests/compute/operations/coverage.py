"""How much of each library may be used on pointers: its public names, and how many are in the lists.

    python -m tests.compute.operations.coverage
    python -m tests.compute.operations.coverage --missing pandas.DataFrame

The first prints the table of docs/coverage.md, the second names what one line of it lacks. Counted are names
without an underscore, of what is installed: callables of a module, methods and attributes of a class. Left
out is what no list can have: names that read or write files or show something, deprecated spellings, and
errors.
"""

from __future__ import annotations

import argparse
import importlib
import re
import types
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from duetlink.compute.operations.allow_lists.allowed import Allowed

# names of files, other processes, other machines, or pictures
_OUTSIDE = re.compile(
    r"^(read|scan|sink|write|load|save|from_file|fromfile|tofile|dump|show|plot|hist|boxplot|get_printoptions|"
    r"set_|memmap|DataSource|test|info$|share_memory|cuda|xpu|to_(clipboard|csv|excel|feather|gbq|hdf|html|iceberg|"
    r"json|latex|markdown|orc|parquet|pickle|sql|stata|xml)$|genfromtxt|fetch_|webdoc|style$)"
)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: what is counted, the names, and those of them that are in the lists."""

    title: str
    names: frozenset[str]
    listed: frozenset[str]

    @property
    def percent(self) -> int:
        """Of the names, those in the lists; rounded down."""
        return 100 * len(self.listed) // max(1, len(self.names))


def rows(libraries: Iterable[str] = ()) -> Iterator[Row]:
    """The lines of the table, for those of the libraries that are installed; all by default. Loads each of
    them, which takes seconds.
    """
    for library in libraries or _PARTS:
        try:
            allowed = Allowed(("python", "numpy", library))
        except ImportError:
            continue
        for title, path, kind in _PARTS[library]:
            found = _resolve(path)
            yield Row(title, *(_COUNT[kind])(found, allowed))


def table() -> str:
    """All lines as Markdown, and the versions that were counted."""
    counted = list(rows())
    versions = ", ".join(
        f"{name} {metadata.version(name)}"
        for name in ("numpy", "pandas", "polars", "torch", "scikit-learn", "scipy", "statsmodels")
        if _is_installed(name)
    )
    lines = ["| public names of | in the lists | of | % |", "|---|---|---|---|"]
    lines += [f"| {row.title} | {len(row.listed)} | {len(row.names)} | {row.percent} |" for row in counted]
    return "\n".join([*lines, "", f"Counted for {versions}."])


def missing(title: str) -> list[str]:
    """The names of one line that are in no list, in order."""
    library = next(library for library, parts in _PARTS.items() if title in (part[0] for part in parts))
    return next(sorted(row.names - row.listed) for row in rows((library,)) if row.title == title)


def _is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _resolve(path: str) -> Any:
    module, _, name = path.partition(":")
    found: Any = importlib.import_module(module)
    for part in filter(None, name.split(".")):
        found = getattr(found, part)
    return found


def _public(obj: Any) -> Iterator[tuple[str, Any]]:
    names = getattr(obj, "__all__", None) if isinstance(obj, types.ModuleType) else None
    for name in sorted(set(names or dir(obj))):
        if name.startswith("_") or _OUTSIDE.match(name):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                yield name, getattr(obj, name)
            except AttributeError:  # a deprecated spelling, or one that waits for another library
                continue


def _functions(module: Any, allowed: Allowed) -> tuple[frozenset[str], frozenset[str]]:
    return _callables(module, allowed, lambda found: not isinstance(found, type))


def _classes(module: Any, allowed: Allowed) -> tuple[frozenset[str], frozenset[str]]:
    return _callables(module, allowed, lambda found: isinstance(found, type))


def _both(module: Any, allowed: Allowed) -> tuple[frozenset[str], frozenset[str]]:
    return _callables(module, allowed, lambda found: True)


def _callables(
    module: Any, allowed: Allowed, wanted: Callable[[Any], bool]
) -> tuple[frozenset[str], frozenset[str]]:
    found = {
        name: obj
        for name, obj in _public(module)
        if callable(obj)
        and wanted(obj)
        and not isinstance(obj, types.ModuleType)
        and not (isinstance(obj, type) and issubclass(obj, BaseException))
    }
    listed = {name for name, obj in found.items() if _is_listed(obj, allowed)}
    return frozenset(found), frozenset(listed)


def _is_listed(obj: Any, allowed: Allowed) -> bool:
    if allowed.name_of(obj) is not None or allowed.constant_name(obj) is not None:
        return True
    if isinstance(obj, types.MethodType) and obj.__name__ == "from_formula":  # a formula is read by duetlink
        return allowed.name_of(obj.__self__) is not None
    # a distribution of scipy.stats, whose methods are listed one by one
    return any(allowed.name_of(getattr(obj, name, None)) is not None for name in ("cdf", "pdf"))


def _members(class_: type, allowed: Allowed) -> tuple[frozenset[str], frozenset[str]]:
    names = frozenset(name for name, _ in _public(class_))
    listed = {
        name
        for name in names
        if allowed.method(class_, name) is not None or allowed.attribute(class_, name) is not None
    }
    if hasattr(class_, "query"):  # what pointers to pandas' frames read themselves
        listed |= {"eval", "items", "keys", "query"}
    return names, frozenset(listed)


def _estimators(module: Any, allowed: Allowed) -> tuple[frozenset[str], frozenset[str]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = dict(module.all_estimators())
    return frozenset(found), frozenset(
        name for name, class_ in found.items() if allowed.name_of(class_) is not None
    )


_COUNT: dict[str, Callable[[Any, Allowed], tuple[frozenset[str], frozenset[str]]]] = {
    "functions": _functions,
    "classes": _classes,
    "callables": _both,
    "members": _members,
    "estimators": _estimators,
}
_PARTS = {
    "numpy": (
        ("numpy, functions", "numpy", "functions"),
        ("numpy.linalg", "numpy.linalg", "functions"),
        ("numpy.fft", "numpy.fft", "functions"),
        ("numpy.ndarray", "numpy:ndarray", "members"),
    ),
    "pandas": (
        ("pandas, functions", "pandas", "functions"),
        ("pandas.DataFrame", "pandas:DataFrame", "members"),
        ("pandas.Series", "pandas:Series", "members"),
        ("pandas.Index", "pandas:Index", "members"),
        ("DataFrame.groupby()", "pandas.api.typing:DataFrameGroupBy", "members"),
        ("Series.str", "pandas:Series.str", "members"),
        ("Series.dt", "pandas.core.indexes.accessors:CombinedDatetimelikeProperties", "members"),
        ("Series.rolling()", "pandas.api.typing:Rolling", "members"),
        ("Series.resample()", "pandas.api.typing:Resampler", "members"),
    ),
    "torch": (
        ("torch.nn.functional", "torch.nn.functional", "functions"),
        ("torch.linalg", "torch.linalg", "functions"),
        ("torch.Tensor", "torch:Tensor", "members"),
        ("torch.nn, modules", "torch.nn.modules", "classes"),
    ),
    "polars": (
        ("polars, functions", "polars", "functions"),
        ("polars.DataFrame", "polars:DataFrame", "members"),
        ("polars.LazyFrame", "polars:LazyFrame", "members"),
        ("polars.Series", "polars:Series", "members"),
        ("polars.Expr", "polars:Expr", "members"),
    ),
    "sklearn": (
        ("scikit-learn, estimators", "sklearn.utils", "estimators"),
        ("sklearn.metrics", "sklearn.metrics", "functions"),
    ),
    "scipy": (
        ("scipy.stats", "scipy.stats", "callables"),
        ("scipy.special", "scipy.special", "functions"),
        ("scipy.spatial.distance", "scipy.spatial.distance", "functions"),
        ("scipy.interpolate", "scipy.interpolate", "callables"),
        ("scipy.signal", "scipy.signal", "callables"),
        ("scipy.linalg", "scipy.linalg", "functions"),
    ),
    "statsmodels": (
        ("statsmodels.api", "statsmodels.api", "callables"),
        ("statsmodels.formula.api", "statsmodels.formula.api", "callables"),
    ),
}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.compute.operations.coverage")
    titles = [part[0] for parts in _PARTS.values() for part in parts]
    parser.add_argument("--missing", metavar="LINE", choices=titles, help="one of " + "; ".join(titles))
    asked = parser.parse_args(arguments)
    print("\n".join(missing(asked.missing)) if asked.missing else table())


if __name__ == "__main__":
    main()
