"""Where the code of duetlink has a person's thread wait, found in its source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import duetlink
import duetlink_gossip

# what a person calls; whatever lies below is awaited on the loop
PARTS = (
    (duetlink, ("assembly.py", "session.py", "duet", "groups", "learning")),
    (duetlink_gossip, (".",)),
)
WAITS = frozenset({"result", "wait"})  # of futures, events and conditions


def places() -> set[str]:
    """`module:function` of every function that waits in its caller's thread: for the loop, a future, an
    event or a thread. A string's `join` is none.
    """
    found: set[str] = set()
    for package, parts in PARTS:
        root = Path(str(package.__file__)).parent
        for part in parts:
            files = [root / part] if part.endswith(".py") else (root / part).rglob("*.py")
            found |= {place for file in files for place in _of(file, root)}
    return found


def _of(file: Path, root: Path) -> Iterator[str]:
    module = ".".join((root.name, *file.relative_to(root).with_suffix("").parts))

    def walk(node: ast.AST, names: tuple[str, ...]) -> Iterator[str]:
        if isinstance(node, ast.AsyncFunctionDef):
            return  # it awaits
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names = (*names, node.name)
        if isinstance(node, ast.Call) and _waits(node.func):
            yield f"{module}:{'.'.join(names)}"
        for child in ast.iter_child_nodes(node):
            yield from walk(child, names)

    yield from walk(ast.parse(file.read_text(encoding="utf-8")), ())


def _waits(called: ast.expr) -> bool:
    if isinstance(called, ast.Name):
        return called.id == "wait_future"
    if not isinstance(called, ast.Attribute):
        return False
    of = ast.unparse(called.value)
    return called.attr in WAITS or (called.attr in ("run", "call", "join") and of.endswith("thread"))
