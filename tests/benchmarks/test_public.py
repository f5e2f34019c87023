"""A benchmark measures what users call: it imports public names alone, or its name says that it is a part."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import harness
from tests.test_public_api import DEEP, ROOT_NAMES

BENCHMARKS = Path(harness.__file__).parent
PUBLIC = {"duetlink": ROOT_NAMES, "duetlink.groups.torch": "", **DEEP}
LINE_OF_A_PROGRAM = re.compile(
    r"^\s*from (duetlink[\w.]*) import (\w+)|^\s*import (duetlink[\w.]*)", re.MULTILINE
)


def imported(source: str) -> Iterator[tuple[str, str]]:
    """Each module with the name that is taken from it, also by programs that are texts."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            for module, name, whole in LINE_OF_A_PROGRAM.findall(node.value):
                yield whole or module, name


def inside(source: str) -> list[str]:
    """What a source imports that is not public."""
    found = []
    for module, name in imported(source):
        of_duetlink = module.split(".")[0] == "duetlink"
        if of_duetlink and (name or "duetlink") not in (*PUBLIC.get(module, "").split(), "duetlink"):
            found.append(f"{module}:{name}")
        if (of_duetlink and module not in PUBLIC) or "benchmarks.part_" in f"{module}.{name}":
            found.append(f"{module}:{name}")
    return sorted(set(found))


@pytest.mark.parametrize(
    "name", sorted(path.name for path in BENCHMARKS.glob("*.py") if not path.name.startswith("part_"))
)
def test_a_benchmark_that_is_no_part_imports_public_names_alone(name: str) -> None:
    assert inside((BENCHMARKS / name).read_text("utf-8")) == [], (
        "call the public API, or call the file part_…; what others do belongs in benchmarks/baselines"
    )


def test_an_import_from_inside_is_found_wherever_it_stands() -> None:
    assert inside("import duetlink\nfrom duetlink import Policy\nfrom duetlink.learning import DpSgd") == []
    assert inside("from duetlink.settings import GIB") == ["duetlink.settings:GIB"]
    assert inside("def f():\n    from duetlink.net.link.link import Link") == ["duetlink.net.link.link:Link"]
    assert inside("import duetlink.net.tunnel") == ["duetlink.net.tunnel:"]
    assert inside("P = '''\nfrom duetlink.data import values\n'''") == ["duetlink.data:values"]
    assert inside("from benchmarks.part_sums import places") == ["benchmarks.part_sums:places"]
    assert inside("from benchmarks import part_sums") == ["benchmarks:part_sums"]


def test_no_part_is_in_the_readme() -> None:
    assert "part_" not in (BENCHMARKS.parent / "README.md").read_text("utf-8")
