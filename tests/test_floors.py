"""The house: its wings, imports that go down only, no knots; and `import duetlink` is light.

An import counts wherever it stands: at the top of a file, under TYPE_CHECKING, or within a function. What a
reader has to know at once is a knot all the same.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Ground floor first. What stands in duetlink/ imports itself and lower floors, never a neighbour: `net` and
# `compute` know nothing of each other, nor do `duet` and `groups`. The root (`__init__`) is above all of
# them; nobody imports it.
WINGS = (
    ("tracebacks",),
    ("errors", "version"),
    ("extensions",),
    ("settings", "panel", "attributes"),
    ("base",),
    ("data",),
    ("net", "compute"),
    ("duet", "groups"),
    ("learning", "prep"),
    ("tools", "testing", "codecs"),  # codecs: public names of data/codecs
    ("session",),
    ("assembly",),
    ("__main__",),
)

# The same within a package. In `duet` the side that asks and the side that answers do not know each other.
FLOORS = {
    "base": (
        ("reraise", "chance", "quantities", "drawing", "runtime", "wire", "journal", "events"),
        ("audit", "event_log"),
    ),
    "data": (("accelerators", "codecs", "dedup", "prep"), ("tuning", "values")),
    "net": (
        ("stand_ins",),
        ("fixed_port", "stun"),
        ("signaling", "tunnel"),
        ("peer", "flight", "carrier"),
        ("paths", "reunion", "datagrams"),
        ("streams",),
        ("ports",),
        ("link",),
    ),
    "compute": (("prep",), ("operations",), ("mocks", "privacy"), ("worker",)),
    "duet": (
        ("cell", "display", "examination"),
        ("audit", "code", "compression", "open_duets", "statistics"),
        ("objects",),
        ("asking", "answering"),
        ("state", "store", "ports"),
        ("life",),
        ("transfers",),
        ("duet",),
        ("announcement", "completion"),
    ),
    "learning": (("averaging", "dp"), ("audit",)),
    "groups": (
        ("membership",),
        ("links",),
        ("collectives",),
        ("lifecycle", "secure"),
        ("api",),
        ("torch",),
    ),
    "groups.collectives": (
        ("schedules",),
        ("execution",),
        ("planning",),
        ("same_host",),
        ("values",),
        ("sums", "reduce_options"),
        ("figures_agreement", "point_to_point"),
        ("collectives",),
        ("averaging",),
    ),
    "net.carrier": (("configuration", "multiplexing"), ("drivers",), ("helper",), ("__main__",)),
    "compute.operations": (
        ("allow_lists", "fitted_tree"),
        ("fitted", "sizes", "steps"),
        ("printer",),
        ("function", "lineage"),
        ("canonical",),
        ("prefixes",),
    ),
    "compute.worker": (("protocol",), ("kernel", "sandbox"), ("room",)),
    "duet.asking": (
        ("mocks", "requests"),
        ("recording",),
        ("grammar",),
        ("pointers",),
        ("functions",),
    ),
    "tools": (("doctor", "demo"), ("cli",)),
}


def parsed(path: Path) -> ast.Module:
    """Once more where CPython before 3.11.8 stumbles over another thread that parses (gh-106905)."""
    source = path.read_text(encoding="utf-8")
    with contextlib.suppress(SystemError):
        return ast.parse(source)
    return ast.parse(source)


def imported(tree: ast.Module, modules: Mapping[str, object], package: str = "duetlink") -> set[str]:
    """Modules that a file imports anywhere in it, without `duetlink.`; "" is the root itself."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                names.append(inner if inner.removeprefix(f"{package}.") in modules else str(node.module))
    ours = [name for name in names if name.partition(".")[0] == package]
    return {name.removeprefix(package).removeprefix(".") for name in ours}


def files(package: Path = ROOT / "duetlink") -> dict[str, Path]:
    """Every module by its name without `duetlink.`; a package is its `__init__.py`."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@functools.cache
def arrows() -> dict[str, set[str]]:
    modules = files()
    return {name: imported(parsed(path), modules) - {name} for name, path in modules.items()}


def floor(name: str, floors: tuple[tuple[str, ...], ...], where: str) -> int:
    for index, names in enumerate(floors):
        if name in names:
            return index
    raise AssertionError(f"{name} stands on no floor of {where}; add it to this file and ARCHITECTURE.md")


def climbs(module: str, other: str) -> bool:
    """Whether an import of `other` does not go down."""
    (home, *inside), (home_of_other, *inside_other) = module.split("."), other.split(".")
    if home != home_of_other:
        return floor(home_of_other, WINGS, "duetlink/") >= floor(home, WINGS, "duetlink/")
    package = home
    while inside and inside_other and inside[0] == inside_other[0]:
        package, inside, inside_other = f"{package}.{inside[0]}", inside[1:], inside_other[1:]
    if package not in FLOORS or not inside or not inside_other:
        return False
    floors = FLOORS[package]
    return floor(inside_other[0], floors, f"{package}/") >= floor(inside[0], floors, f"{package}/")


@pytest.mark.parametrize("module", [name for name in files() if name])
def test_imports_go_down(module: str) -> None:
    assert "" not in arrows()[module], f"{module} imports the root"
    assert [other for other in sorted(arrows()[module]) if climbs(module, other)] == []


def test_everything_has_its_place() -> None:
    homes = {name.partition(".")[0] for name in files() if name}
    assert homes == {name for names in WINGS for name in names}
    for package, floors in FLOORS.items():
        inside = [name.removeprefix(f"{package}.") for name in files() if name.startswith(f"{package}.")]
        parts = {name.partition(".")[0] for name in inside}
        assert parts == {name for names in floors for name in names}


def knots(graph: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """Strongly connected components of more than one file (Tarjan 1972)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: set[frozenset[str]] = set()

    def visit(name: str) -> None:
        order[name] = lowest[name] = len(order)
        stack.append(name)
        for other in graph[name] & graph.keys():
            if other not in order:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in stack:
                lowest[name] = min(lowest[name], order[other])
        if lowest[name] == order[name]:
            at = stack.index(name)
            if len(stack) - at > 1:
                found.add(frozenset(stack[at:]))
            del stack[at:]

    for name in graph:
        if name not in order:
            visit(name)
    return found


def test_no_files_know_each_other_in_a_circle() -> None:
    assert knots(arrows()) == set()


def test_the_package_for_gossip_needs_the_errors_of_the_core_alone_and_has_no_circle() -> None:
    modules = files(ROOT / "gossip/duetlink_gossip")
    trees = {name: parsed(path) for name, path in modules.items()}
    assert set().union(*(imported(tree, files()) for tree in trees.values())) == {"errors"}
    assert knots({name: imported(tree, modules, "duetlink_gossip") for name, tree in trees.items()}) == set()


def test_a_knot_is_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set[str](), "e": {"f"}, "f": {"a", "e"}}
    assert knots(graph) == {frozenset({"b", "c"}), frozenset({"e", "f"})}


def test_an_import_is_found_wherever_it_stands() -> None:
    source = """
import duetlink
import duetlink.base.wire
if TYPE_CHECKING:
    from duetlink.net.link import link
def f():
    from duetlink.errors import DuetError
"""
    assert imported(ast.parse(source), {"net.link.link": 0}) == {"", "base.wire", "net.link.link", "errors"}


@pytest.mark.parametrize(
    ("module", "other"),
    [
        ("base.wire.envelope", "data.values"),
        ("net.link.link", "compute.worker.room.job"),
        ("compute.worker.room.job", "net.link.link"),
        ("duet.duet", "tools.doctor.report"),
        ("net.flight.body", "net.paths.base"),
        ("data.values", "codecs"),
        ("duet.duet", "session"),
        ("duet.duet", "groups.links.transport"),
        ("groups.links.transport", "duet.duet"),
        ("duet.asking.pointers.pointer", "duet.answering.inbox"),
        ("duet.answering.inbox", "duet.asking.requests.asking"),
        ("duet.objects.catalogue", "duet.answering.inbox"),
        ("duet.answering.inbox", "duet.state.state"),
    ],
)
def test_an_import_that_climbs_is_told(module: str, other: str) -> None:
    assert climbs(module, other)


def test_importing_the_package_is_light() -> None:
    heavy = ("torch", "pyarrow", "aiortc", "numpy", "pandas", "polars", "aiohttp", "IPython")
    program = "import sys, duetlink; print(*sorted(set(sys.modules) & set(sys.argv[1:])))"
    done = subprocess.run(
        [sys.executable, "-c", program, *heavy], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == ""


def test_unknown_attribute_says_what_there_is() -> None:
    import duetlink

    with pytest.raises(AttributeError, match="launch"):
        duetlink.lunch  # noqa: B018


def callbacks_assigned(tree: ast.AST) -> list[str]:
    """Each assignment of `other.on_…`: control that climbs where no drawing of imports shows it."""
    return [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and node.attr.startswith("on_")
        and not (isinstance(node.value, ast.Name) and node.value.id == "self")
    ]


def test_what_an_object_calls_it_gets_by_an_argument() -> None:
    found = {name: callbacks_assigned(parsed(path)) for name, path in files().items()}
    assert {name: assigned for name, assigned in found.items() if assigned} == {}


def test_an_assignment_of_a_callback_is_found_however_it_is_written() -> None:
    source = """
a.on_x = b.c.on_y = f
self.on_own = f
self.a.on_z, other = f, g
a.on_w: Call = f
for a.on_v in fs: a.on_called()
"""
    found = callbacks_assigned(ast.parse(source))
    assert sorted(found) == ["a.on_v", "a.on_w", "a.on_x", "b.c.on_y", "self.a.on_z"]
