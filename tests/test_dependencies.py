"""What the packages import is declared in pyproject.toml, and what they need is imported."""

from __future__ import annotations

import ast
import functools
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CORE = ("duetlink", "widgets/duetlink_widgets")
GOSSIP = "gossip/duetlink_gossip"

# distributions that are named otherwise than what is imported from them
DISTRIBUTIONS = {
    "IPython": "ipython",
    "dp_accounting": "dp-accounting",
    "google": "protobuf",
    "joblib": "scikit-learn",  # which is not to be had without it
    "jupyter_client": "jupyter-client",
    "jupyter_core": "jupyter-core",
    "jupyterlab_server": "jupyterlab-server",
    "sklearn": "scikit-learn",
}
# anywidget draws with it, and would take a version 7, in which our panel is not tried
NOT_IMPORTED = {"ipywidgets"}


def declared(file: Path) -> tuple[set[str], set[str]]:
    """The distributions that are always installed, and those that extras name."""
    project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
    extras = [line for lines in project.get("optional-dependencies", {}).values() for line in lines]
    core, optional = (
        {re.match(r"[\w.-]+", line)[0].lower() for line in lines}  # type: ignore[index]
        for lines in (project["dependencies"], extras)
    )
    return core, optional - {"duetlink"}


def imported(tree: ast.Module) -> Iterator[str]:
    """Top-level names of what a file imports, anywhere in it, by statement or by `import_module("…")`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            assert not node.level
            yield node.module.partition(".")[0]
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            if called == "import_module":
                yield str(node.args[0].value).partition(".")[0]


@functools.cache
def needed(*packages: str) -> dict[str, list[str]]:
    """Distributions, and the files that import them."""
    found: dict[str, list[str]] = {}
    own = {Path(package).name for package in packages}
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            for name in set(imported(ast.parse(path.read_text(encoding="utf-8")))):
                if name not in sys.stdlib_module_names and name not in own:
                    found.setdefault(DISTRIBUTIONS.get(name, name), []).append(str(path.relative_to(ROOT)))
    return found


def test_what_is_imported_is_declared() -> None:
    core, optional = declared(ROOT / "pyproject.toml")
    assert {name: files for name, files in needed(*CORE).items() if name not in core | optional} == {}


def test_what_every_installation_brings_is_imported() -> None:
    core, _ = declared(ROOT / "pyproject.toml")
    assert core - set(needed(*CORE)) == NOT_IMPORTED


def test_the_package_for_gossip_declares_what_it_imports() -> None:
    assert declared(ROOT / "gossip/pyproject.toml") == (set(needed(GOSSIP)), set())


def test_an_import_is_found_wherever_it_stands() -> None:
    source = "def f():\n    import one.two\n    from three import four\n    importlib.import_module('five')"
    assert sorted(imported(ast.parse(source))) == ["five", "one", "three"]


@pytest.mark.parametrize("name", ["aioice", "numpy", "protobuf"])
def test_some_that_are_surely_needed_are_seen(name: str) -> None:
    assert name in needed(*CORE)
