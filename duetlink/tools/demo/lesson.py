"""Lessons: sets of notebooks that are played together, or single notebooks."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from duetlink.errors import MissingLibrary
from duetlink.tools.demo.errors import DemoFailed

SCIENTIST = "scientist"
MEMBER = "member-"
FIRST = "1-basics"
_ASIDE = re.compile(r"\s*·.*")  # the end of a title that says whose notebook it is
# distributions whose name differs from that of their module
_DISTRIBUTIONS = {"sklearn": "scikit-learn", "dp_accounting": "dp-accounting"}
# modules that duetlink imports when a notebook uses one of these names
_BEHIND = {
    "dp": ("opendp",),
    "fit_private": ("opendp",),
    "Prep": ("narwhals", "polars", "duckdb"),
    "DpSgd": ("dp_accounting",),
}


@dataclass(frozen=True, slots=True)
class Lesson:
    """A lesson and its notebooks, which are one of:

    - `owner.ipynb`, or several `owner-NAME.ipynb`, and `scientist.ipynb`;
    - several `member-NAME.ipynb`, which form a group;
    - one notebook of any other name.
    """

    name: str
    notebooks: tuple[Path, ...]

    @property
    def is_group(self) -> bool:
        """True if its notebooks form a group, False if they pair in duets."""
        return self.notebooks[0].stem.startswith(MEMBER)

    @property
    def is_alone(self) -> bool:
        return len(self.notebooks) == 1

    @property
    def title(self) -> str:
        """The title, from the first heading of its last notebook."""
        return _title(self.notebooks[-1])

    @property
    def missing(self) -> list[str]:
        """The distributions that its notebooks import and that are not installed."""
        needed = {"nbclient", "ipykernel"}
        for path in self.notebooks:
            for source in _sources(path, "code"):
                needed |= _imported(source)
        return [
            _DISTRIBUTIONS.get(module, module)
            for module in sorted(needed)
            if importlib.util.find_spec(module) is None
        ]


def _number(name: str) -> tuple[int, str]:
    """Return the key that sorts lessons by their numbers: 12 comes after 2."""
    number = name.partition("-")[0]
    return (int(number) if number.isdecimal() else 0), name


def lesson_in(directory: Path) -> Lesson | None:
    """Return the lesson in a directory; None if the directory has no complete one."""
    owners = tuple(sorted(directory.glob("owner*.ipynb")))
    scientist = directory / f"{SCIENTIST}.ipynb"
    members = tuple(sorted(directory.glob(f"{MEMBER}*.ipynb")))
    name = directory.resolve().name
    if len(members) > 1:
        return Lesson(name, members)
    if owners and scientist.is_file():
        return Lesson(name, (*owners, scientist))
    alone = tuple(directory.glob("*.ipynb"))
    of_several = owners or members or scientist.is_file()  # the others are missing
    return Lesson(name, alone) if len(alone) == 1 and not of_several else None


def lessons() -> list[Lesson]:
    """Return the lessons of duetlink: those of the checkout, or those installed with the package."""
    found = [lesson_in(directory) for directory in _directories()]
    return [lesson for lesson in found if lesson is not None]


def listed() -> list[tuple[str, str]]:
    return [(each.name, each.title + (" (one notebook)" if each.is_alone else "")) for each in lessons()]


def home() -> Path:
    """Return the directory that contains the lessons."""
    package = Path(__file__).resolve().parent
    clone = package.parents[2] / "notebooks"
    return clone if (clone / FIRST).is_dir() else package / "notebooks"


def choose(name: str, directory: Path | None) -> Lesson:
    """Return the lesson in `directory`, or the lesson called `name` if `directory` is None.

    Raises:
        DemoFailed: there is no such lesson.
        MissingLibrary: it needs libraries that are not installed; the message says which.
    """
    lesson = find(name) if directory is None else lesson_in(directory)
    if lesson is None:
        raise DemoFailed(
            f"there are neither owner.ipynb and scientist.ipynb nor member-NAME.ipynb in {directory}"
        )
    if missing := lesson.missing:
        # named one by one, not as an extra: duetlink may have been installed from a wheel and be in no index
        raise MissingLibrary(f"{lesson.name} needs {', '.join(missing)}: pip install {' '.join(missing)}")
    return lesson


def find(name: str) -> Lesson:
    """Return the lesson of that name, or of a part of it: `3-images`, `3` or `images`. Raises DemoFailed."""
    known = lessons()
    for lesson in known:
        if _is_called(lesson.name, name):
            return lesson
    if not known:
        raise DemoFailed(f"there are no notebooks in {home()}; --notebooks says where they are")
    raise DemoFailed(f"there is no {name!r}; there are {', '.join(lesson.name for lesson in known)}")


def _is_called(lesson: str, name: str) -> bool:
    number, _, rest = lesson.partition("-")
    return name in (lesson, number, rest)


def _directories() -> list[Path]:
    return sorted(home().iterdir(), key=lambda each: _number(each.name)) if home().is_dir() else []


def _title(path: Path) -> str:
    for source in _sources(path, "markdown"):
        first = source.partition("\n")[0]
        return _ASIDE.sub("", first.lstrip("# "))
    return ""


def _sources(path: Path, kind: str) -> Iterator[str]:
    # read without nbformat, which may be one of the missing libraries
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == kind:
            yield "".join(cell["source"])


def _imported(source: str) -> set[str]:
    try:
        tree = ast.parse(source)
    except SyntaxError:  # IPython's own syntax, such as %magic
        return set()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
            names |= {module for alias in node.names for module in _BEHIND.get(alias.name, ())}
        elif isinstance(node, ast.Attribute):
            names |= set(_BEHIND.get(node.attr, ()))
    return names
