"""Tests name nothing private of the packages: they reach inside through `duetlink.testing.faults`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent

# of Jupyter, of named tuples, of torch, pandas, pytest and aiohttp
OTHERS = {
    *("_repr_html_", "_repr_mimebundle_", "_replace", "_make", "_asdict", "_fields"),
    *("_C", "_nn", "_VF", "_base", "_buffers", "_parameters", "_is_param", "_DistTestBase", "_barrier"),
    *("_get_default_group", "_get_default_store", "_data", "_metadata"),
    *("_make_wrapper_subclass", "_device_types", "_sleep"),
    *("_tmp_path_factory", "_response", "_sock"),
}


def is_private(name: object) -> bool:
    return isinstance(name, str) and name.startswith("_") and not name.endswith("__") and name != "_"


def own_names(tree: ast.Module) -> Iterator[str]:
    """What a test file defines: functions, classes and constants, and attributes of its own classes."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                yield name


def private_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls" | "os" | "sys")):
                pass
            case ast.Attribute(attr=name) if is_private(name):
                yield node.lineno, name
            case ast.Call(args=[_, ast.Constant(value), *_], func=function):
                called = getattr(function, "attr", getattr(function, "id", ""))
                if called in ("setattr", "getattr", "delattr", "hasattr") and is_private(value):
                    yield node.lineno, str(value)
            case ast.ImportFrom(module=str(module), names=names) if module.partition(".")[0] == "duetlink":
                for alias in names:
                    if is_private(alias.name):
                        yield node.lineno, alias.name


def used_by(path: Path, tree: ast.Module) -> Iterator[Path]:
    """Files of the tests from which one has its fakes: those that it imports, and what gives it fixtures."""
    for folder in path.parents:
        yield folder / "conftest.py"
        if folder == HERE:
            break
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            start = path.parents[node.level - 1] if node.level else HERE.parent
            module = start.joinpath(*(node.module or "").split("."))
            yield module.with_suffix(".py")
            yield from (module / f"{alias.name}.py" for alias in node.names)


def found() -> list[tuple[str, int, str]]:
    """Where tests name something private: file, line and name."""
    trees = {path: ast.parse(path.read_text("utf-8")) for path in sorted(HERE.rglob("*.py"))}
    own = {path: frozenset(own_names(tree)) for path, tree in trees.items()}
    places = []
    for path, tree in trees.items():
        fakes = OTHERS.union(own[path], *(own[each] for each in used_by(path, tree) if each in own))
        names = sorted(private_names(tree))
        places += [(str(path.relative_to(HERE)), line, name) for line, name in names if name not in fakes]
    return places


def test_tests_name_nothing_that_is_private() -> None:
    assert found() == [], "use or add a hook in duetlink.testing.faults"
