"""The code that people copy, as modules for a type checker: of the README, of the guide, and of the lessons.

`tests/typed/test_cells.py` has mypy check them, and `python -m tests.typed` pyright.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_DOCUMENTS = ("README.md", "docs/guide.md", "docs/pointers.md")
# notebooks are not annotated; where a library has no types, that is not duetlink's code
_HEAD = """\
# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disable-error-code="import-untyped,no-redef,misc,empty-body,var-annotated,func-returns-value"
from IPython.display import display as display
"""


def modules() -> Iterator[tuple[str, str]]:
    """Name and source of each module: one for each role of a document, and one for each notebook."""
    for document in _DOCUMENTS:
        yield from _of_document(ROOT / document)
    for notebook in sorted((ROOT / "notebooks").glob("*/*.ipynb")):
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        yield _name(notebook.parent.name, notebook.stem), _HEAD + "\n\n".join(sources) + "\n"


def _of_document(path: Path) -> Iterator[tuple[str, str]]:
    """Its blocks by whose notebook they are for, as their first line says. Others have no meaning alone,
    but for the README's, which is for each member of a group.
    """
    blocks = _BLOCK.findall(path.read_text(encoding="utf-8"))
    if path.stem == "README":
        (of_members,) = (block for block in blocks if not re.match(r"# the \w+'s notebook\b", block))
        yield _name(path.stem, "member"), _HEAD + of_members
    for role in ("owner", "scientist"):
        of_role = [block for block in blocks if re.match(rf"# (the )?{role}\b", block)]
        if of_role:
            yield _name(path.stem, role), _HEAD + _GIVEN[path.stem][role] + "\n".join(of_role)


# what a page takes for granted
_DUET = (
    "from typing import cast\n"
    "from duetlink import Duet\n"
    "from duetlink.duet.answering.requests import Request\n"
    "duet = cast(Duet, None)\n"
)
_GIVEN = {
    "README": {"owner": "", "scientist": ""},
    "guide": {"owner": "", "scientist": ""},
    "pointers": {
        "owner": f"import pandas as pd\n{_DUET}request = cast(Request, None)\nframe = pd.DataFrame()\n",
        "scientist": f"import numpy as np\n{_DUET}",
    },
}


def _name(*parts: str) -> str:
    return "cells_" + re.sub(r"\W", "_", "_".join(parts)).lower()


def write(directory: Path) -> list[Path]:
    """Write the modules; returns their files."""
    written = []
    for name, source in modules():
        path = directory / f"{name}.py"
        path.write_text(source, encoding="utf-8")
        written.append(path)
    return written
