"""What the commit-msg hook refuses, in real commits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import commit_message


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("x" * 72, None),
        ("x" * 73, "73 characters; at most 72"),
        ("", "needs a subject"),
        ("# Please enter the commit message\n", "needs a subject"),
        ("Say what\nand why", "blank line"),
        (
            "Say what\n\nand why, in a line that is longer than a subject may be, which nobody minds",
            None,
        ),
        ('Revert "' + "x" * 72 + '"', None),
    ],
)
def test_a_message_is_refused_for_one_reason(message: str, words: str | None) -> None:
    found = commit_message.fault(message)
    assert (found is None) == (words is None)
    assert words is None or words in str(found)


def test_git_makes_no_commit_that_the_hook_refuses(tmp_path: Path) -> None:
    def git(*arguments: str) -> subprocess.CompletedProcess[str]:
        who = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        return subprocess.run(
            ["git", *who, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    git("init", "--quiet")
    hook = tmp_path / ".git/hooks/commit-msg"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{commit_message.__file__}" "$1"\n')
    hook.chmod(0o755)
    refused = git("commit", "--allow-empty", "--message", "x" * 73)
    assert (refused.returncode, "73 characters; at most 72" in refused.stderr) == (1, True)
    assert git("commit", "--allow-empty", "--message", "x" * 72).returncode == 0
