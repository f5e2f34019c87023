"""The documents: their links resolve, the files and tests they name exist, and the front page stays short."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import duetlink
from duetlink import errors

ROOT = Path(__file__).resolve().parent.parent


def git_files(*patterns: str) -> list[str]:
    """Files of the repository, those not yet added too, as paths from its root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    return [name for name in done.stdout.splitlines() if (ROOT / name).exists()]


FILES = git_files()
DOCUMENTS = [name for name in FILES if name.endswith(".md")]
TOP = {name.split("/")[0] for name in FILES if "/" in name}

LINK = re.compile(r"(?<!`)!?\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"[\w.-]+(/[\w.-]+)*\.(py|pyi|md|toml|proto|ts|tsx|ipynb|css|svg|png)")
DIRECTORY = re.compile(r"[\w-]+(/[\w-]+)*/?")
TEST = re.compile(r"(tests/[\w/]+\.py)::(test_\w+)")


def prose(document: str) -> str:
    """A document without its fenced blocks."""
    return re.sub(r"^```.*?^```", "", (ROOT / document).read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors(document: Path) -> set[str]:
    """What GitHub calls the headings of a document."""
    headings = re.findall(r"^#+ (.+)$", document.read_text("utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def missing(name: str) -> bool:
    """Whether a text set as code names a file or a directory of the repository that is not there.

    A text with a known ending is a file; the end of its path is enough: `net/flight/sending.py`. A text with
    a slash is a directory if it ends with one, or begins with a directory at the root: `net/carrier/`,
    `tests/lab`.
    """
    if FILE.fullmatch(name):
        return not any(f"/{file}".endswith(f"/{name}") for file in FILES)
    if DIRECTORY.fullmatch(name) and (name.endswith("/") or name.split("/")[0] in TOP - {name}):
        return not any(f"/{name.rstrip('/')}/" in f"/{file}/" for file in FILES)
    return False


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_between_documents_resolves(document: str) -> None:
    for target in LINK.findall(prose(document)):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / document).parent / path if path else ROOT / document
        assert file.exists(), f"{document} links to {target}, which does not exist"
        if anchor:
            assert anchor in anchors(file), f"{document} links to {target}, and there is no such heading"


# CHANGELOG.md tells what was.
@pytest.mark.parametrize("document", [name for name in DOCUMENTS if name != "CHANGELOG.md"])
def test_every_file_that_a_document_names_exists(document: str) -> None:
    names = CODE.findall(prose(document))
    assert [name for name in names if missing(name)] == []


def test_a_name_of_no_file_is_found() -> None:
    assert missing("duetlink/nowhere.py")
    assert missing("nowhere.py")
    assert missing("tests/nowhere")
    assert missing("nowhere/")
    assert not missing("settings.py")
    assert not missing("net/flight/sending.py")
    assert not missing("tests/lab")
    assert not missing("numpy.mean")
    assert not missing("duetlink-doctor/1")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_test_that_a_document_names_exists(document: str) -> None:
    for file, name in TEST.findall(prose(document)):
        assert re.search(rf"def {name}\(", (ROOT / file).read_text("utf-8")), f"{document}: {file}::{name}"


@pytest.mark.parametrize(("document", "most_lines"), [("README.md", 150), ("ARCHITECTURE.md", 120)])
def test_the_front_pages_stay_short(document: str, most_lines: int) -> None:
    assert len((ROOT / document).read_text("utf-8").splitlines()) <= most_lines


def test_every_setting_is_in_the_table_with_its_variable() -> None:
    table = (ROOT / "docs/settings.md").read_text("utf-8")
    rows = [
        [cell.strip() for cell in line.split("|")[1:4]]
        for line in table.splitlines()
        if line.startswith("| `")
    ]
    named = {name.strip("`"): variable.strip("`") for name, _, variable in rows}
    assert named == {field.name: field.metadata["env"] for field in dataclasses.fields(duetlink.Settings)}


def test_every_error_is_explained() -> None:
    classes = [cls for cls in vars(errors).values() if isinstance(cls, type)]
    raised = {cls.__name__ for cls in classes if issubclass(cls, errors.DuetError)}
    assert raised - set(CODE.findall(prose("docs/errors.md"))) == {"DuetError"}


def test_the_cells_of_the_readme_run() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    cells = re.findall(r"^```python\n(.*?)^```", readme, flags=re.DOTALL | re.MULTILINE)
    assert len(cells) == 3
    owner: dict[str, Any] = {}
    scientist: dict[str, Any] = {}
    exec(cells[0], owner)
    with owner["duet"]:
        answering = threading.Thread(target=lambda: owner["duet"].wait_request(30).approve())
        answering.start()
        assert '"7-crossover-clockwork"' in cells[1]
        exec(cells[1].replace('"7-crossover-clockwork"', repr(str(owner["duet"].code))), scientist)
        answering.join()
        with scientist["duet"]:
            np.testing.assert_array_equal(scientist["array"], owner["scans"])
    members: list[dict[str, Any]] = [{}, {}]
    with duetlink.group(size=3) as group:
        joining = cells[2].replace('"7-crossover-clockwork"', repr(str(group.code)))
        threads = [threading.Thread(target=exec, args=(joining, member)) for member in members]
        for thread in threads:
            thread.start()
        group.all_reduce(np.array([1, 2, 3]), secure=True)
        mean = group.average({"age": np.array([44.5])}, weight=316)
        for thread in threads:
            thread.join()
        assert [member["totals"].tolist() for member in members] == [[241, 64, 17]] * 2
        assert mean["age"].tolist() == pytest.approx([43.0])
        for member in members:
            assert member["means"]["age"].tolist() == mean["age"].tolist()
            member["group"].close()


def run_all(cells: list[str], names: dict[str, Any]) -> None:
    for cell in cells:
        exec(cell, names)


def test_the_five_minutes_of_the_guide_run() -> None:
    guide = (ROOT / "docs/guide.md").read_text("utf-8").partition("## What a yes covers")[0]
    cells = re.findall(r"^```python\n# (owner|scientist)\n(.*?)^```", guide, flags=re.DOTALL | re.MULTILINE)
    assert [role for role, _ in cells] == ["owner", "scientist"] * 3 + ["owner"]
    (_, launch), *later = cells
    owner: dict[str, Any] = {}
    scientist: dict[str, Any] = {}
    exec(launch, owner)
    with owner["duet"]:
        code = repr(str(owner["duet"].code))
        theirs = [
            cell.replace('"7-crossover-clockwork"', code) for role, cell in later if role == "scientist"
        ]
        joining = threading.Thread(target=run_all, args=(theirs, scientist))
        joining.start()
        for role, cell in later:
            if role == "owner":
                exec(cell, owner)
        joining.join()
        scientist["duet"].close()
    np.testing.assert_array_equal(owner["means"], owner["scans"].mean(axis=0))
