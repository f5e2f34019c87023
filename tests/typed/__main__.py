"""Has pyright check the code that people copy: `python -m tests.typed`. Pyright comes by npm."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.typed.cells import ROOT, write

_PYRIGHT = "pyright@1"
# What is wrong by the types of other libraries, in parts of pyright's messages. NumPy's and torch's functions
# return arrays to it, of pointers too; scikit-learn's stubs say that a data set may be a tuple, and IPython's
# that display() may return nothing.
_KNOWN = (
    ("cells_6_private_scientist", 'Cannot access attribute "dp" for class "NDArray'),
    ("cells_6_private_scientist", 'Cannot access attribute "mock" for class "NDArray'),
    ("cells_3_images_scientist", 'Cannot access attribute "mock" for class'),
    ("cells_3_images_scientist", 'Cannot access attribute "get" for class'),
    ("cells_5_function_scientist", '"p" is possibly unbound'),  # the variable of a loop, after it
    ("cells_", 'for class "tuple[Series |'),
    ("cells_", '"update" is not a known attribute of "None"'),
)


def main() -> int:
    """Write the cells to a directory, have pyright check them, and print what is wrong; 1 if anything is."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        write(directory)
        settings = {"include": ["."], "extraPaths": [str(ROOT)], "typeCheckingMode": "standard"}
        (directory / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
        command = ["npx", "--yes", _PYRIGHT, "--outputjson", "--pythonpath", sys.executable]
        done = subprocess.run(
            [*command, "--project", name], capture_output=True, text=True, check=False, timeout=600
        )
    try:
        report = json.loads(done.stdout)
    except ValueError:
        print(done.stdout, done.stderr)
        return 1
    wrong = [found for found in report["generalDiagnostics"] if found["severity"] == "error"]
    wrong = [found for found in wrong if not _is_known(Path(found["file"]).stem, found["message"])]
    for found in wrong:
        line = found["range"]["start"]["line"] + 1
        print(f"{Path(found['file']).stem}:{line}: {found['message']}")
    print(f"{report['summary']['filesAnalyzed']} files, {len(wrong)} errors")
    return 1 if wrong or not report["summary"]["filesAnalyzed"] else 0


def _is_known(module: str, message: str) -> bool:
    return any(module.startswith(name) and part in message for name, part in _KNOWN)


if __name__ == "__main__":
    sys.exit(main())
