"""Gossip is in a package of its own: the core's wheel has none of it, and says how to get it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import duetlink_gossip

ROOT = Path(__file__).resolve().parents[2]


def wheel(project: Path, directory: Path) -> set[str]:
    """The files of the wheel that this project builds."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", str(directory), str(project)], check=True, timeout=100)
    (built,) = directory.glob("*.whl")
    with zipfile.ZipFile(built) as files:
        return {name for name in files.namelist() if ".dist-info/" not in name}


def test_the_wheel_of_the_core_has_no_gossip(tmp_path: Path) -> None:
    files = wheel(ROOT, tmp_path)
    assert {"duetlink/learning/__init__.py", "duetlink_widgets/static/panel.js"} <= files
    assert [name for name in files if "gossip" in name and not name.endswith(".ipynb")] == []


def test_the_wheel_of_gossip_has_its_modules_alone(tmp_path: Path) -> None:
    modules = {path.name for path in Path(str(duetlink_gossip.__file__)).parent.iterdir() if path.is_file()}
    assert wheel(ROOT / "gossip", tmp_path) == {f"duetlink_gossip/{name}" for name in modules}


def test_without_the_package_the_error_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "duetlink").symlink_to(ROOT / "duetlink")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import duetlink.learning, duetlink.errors\n"
        "try: duetlink.learning.Gossip\n"
        "except duetlink.errors.MissingLibrary as error: print(error)"
    )
    # isolated, and without site-packages: nothing is installed but what stands in the directory
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == (
        "duetlink.learning.Gossip comes with a package of its own: pip install 'duetlink[gossip]'\n"
    )
