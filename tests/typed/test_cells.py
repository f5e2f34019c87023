"""mypy accepts the code of the README, of the guide, of the page on pointers, and of all lessons."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.typed.cells import ROOT, write

PACKAGES = ("duetlink", "widgets/duetlink_widgets", "gossip/duetlink_gossip")

# NumPy's and torch's own types say that their functions return arrays, of pointers too
KNOWN = [
    ("cells_3_images_scientist", 'expression has type "Tensor", variable has type "int"'),
    ("cells_3_images_scientist", '"float" has no attribute "get"'),
    ("cells_3_images_scientist", '"float" has no attribute "mock"'),
    ("cells_6_private_scientist", 'has no attribute "dp"'),
    ("cells_6_private_scientist", 'has no attribute "mock"'),
]


def test_mypy_accepts_what_people_copy(tmp_path: Path) -> None:
    files = write(tmp_path)
    assert len(files) >= 21
    # with the lint's own options and cache
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *PACKAGES, *map(str, files)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
    )
    said = sorted(re.findall(r"(\w+)\.py:\d+: error: (.*)", done.stdout))
    unknown = [line for line in said if not any(line[0] == name and part in line[1] for name, part in KNOWN)]
    assert unknown == []
    assert len(said) == len(KNOWN), done.stdout + done.stderr
