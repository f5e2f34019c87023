"""The house: imports go down only, nobody imports the root from inside, `import duetlink` is light."""

from __future__ import annotations

import ast
import contextlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# ground floor first; a module may import its own floor and lower ones
FLOORS = (
    ("errors", "version"),
    ("settings",),
    ("codecs", "dedup", "operations"),
    ("tuning",),
    ("wire", "values", "runtime", "signaling", "tunnel", "journal"),
    ("peer", "flight", "carrier", "mocks", "privacy", "audit"),
    ("paths", "doctor", "reunion", "worker"),
    ("link",),
    ("duet",),
    ("session",),
    ("demo", "testing"),
    ("cli",),
    ("__main__",),
)


def level(module: str) -> int:
    for index, names in enumerate(FLOORS):
        if module in names:
            return index
    raise AssertionError(f"duetlink.{module} stands on no floor; add it to FLOORS and ARCHITECTURE.md")


def parsed(path: Path) -> ast.Module:
    """Once more where CPython before 3.11.8 stumbles over another thread that parses (gh-106905)."""
    source = path.read_text(encoding="utf-8")
    with contextlib.suppress(SystemError):
        return ast.parse(source)
    return ast.parse(source)


def imports(path: Path) -> set[str]:
    """First-level duetlink modules that a file imports when it is loaded or run."""
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("duetlink."):
            found.add(node.module.split(".")[1])
        elif isinstance(node, ast.ImportFrom) and node.module == "duetlink":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("duetlink.")}
            assert not any(alias.name == "duetlink" for alias in node.names), f"{path} imports the root"
    return found


@pytest.mark.parametrize(
    "path",
    [path for path in sorted((ROOT / "duetlink").rglob("*.py")) if path != ROOT / "duetlink/__init__.py"],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_imports_go_down(path: Path) -> None:
    module = path.relative_to(ROOT / "duetlink").parts[0].removesuffix(".py")
    for imported in imports(path) - {module}:
        assert level(imported) < level(module), f"{path} imports duetlink.{imported}, which is not below it"


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
