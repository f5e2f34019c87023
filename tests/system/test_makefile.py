"""What a target of the Makefile would run, without running it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

CLONE = Path(__file__).parents[2]


def recipe(target: str) -> list[str]:
    """Every command of a target and of what it needs, as if nothing had been made before."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    command = ["make", "--no-print-directory", "--dry-run", "--always-make", target]
    return subprocess.run(command, cwd=CLONE, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.parametrize("target", ["setup", "demo", "check", "bench", "weekly"])
def test_only_the_tests_install_system_packages(target: str) -> None:
    commands = recipe(target)
    assert "python3 -m venv .venv" in commands
    assert [line for line in commands if "system_packages" in line] == []


def test_the_tests_install_system_packages_before_they_begin() -> None:
    commands = recipe("test")
    installing = commands.index(".venv/bin/python tests/system_packages.py")
    assert installing < next(index for index, line in enumerate(commands) if "-m pytest" in line)


def test_the_demo_is_the_command_without_arguments() -> None:
    assert recipe("demo")[-1] == ".venv/bin/duetlink demo"
