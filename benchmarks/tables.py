"""`python -m benchmarks.tables`: write the tables and figures of documents anew, from `benchmarks/results`.

Between `<!-- benchmark: NAME -->` and `<!-- end -->` stands the table of results/NAME.json, with the command,
the day and the machine that it came from; several names make one table. Columns that are empty are left out.
`<!-- cell: NAME; ROW; COLUMN -->…<!-- end -->` is one cell: ROW is what its row begins with.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click

from benchmarks import harness
from benchmarks.harness import Result

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"(<!-- benchmark: ([^>]+?) -->).*?(<!-- end -->)", re.DOTALL)
CELL = re.compile(r"(<!-- cell: ([^>]+?) -->)[^\n]*?(<!-- end -->)")
OPENING = re.compile(r"<!-- (?:benchmark|cell): ")


def documents() -> list[Path]:
    """All Markdown of the repository, that which is not committed yet too."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.splitlines() if (ROOT / name).exists()]


def named(text: str) -> set[str]:
    """The results that a document shows."""
    cells = (places.partition(";")[0] for _, places, _ in CELL.findall(text))
    return {name for _, names, _ in BLOCK.findall(text) for name in names.split()} | set(cells)


def rewritten(text: str) -> str:
    """A document with its tables and figures as the results are now.

    Raises:
        click.ClickException: a result, row or column does not exist, or a mark has no end.
    """
    if len(OPENING.findall(text)) != len(BLOCK.findall(text)) + len(CELL.findall(text)):
        raise click.ClickException("a mark <!-- benchmark: … --> or <!-- cell: … --> has no <!-- end -->")
    text = BLOCK.sub(lambda found: f"{found[1]}\n\n{_table(found[2].split())}\n\n{found[3]}", text)
    return CELL.sub(lambda found: f"{found[1]}{_cell(found[2])}{found[3]}", text)


def _result(name: str) -> Result:
    try:
        return Result.load(name)
    except FileNotFoundError as error:
        raise click.ClickException(
            f"there is no {harness.RESULTS / f'{name}.json'}: run the benchmark that writes it"
        ) from error


def _table(names: list[str]) -> str:
    results = [_result(name) for name in names]
    headers = results[0].headers
    if any(result.headers != headers for result in results):
        raise click.ClickException(f"{' '.join(names)} have other columns than each other")
    rows = [row for result in results for row in result.rows]
    columns = [0, *(place for place in range(1, len(headers)) if any(row[place] for row in rows))]
    lines = [[headers[place] for place in columns], ["---", *["---:"] * (len(columns) - 1)]]
    lines += [[row[place] for place in columns] for row in rows]
    shown = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
    sources = dict.fromkeys(f"{result.title}. {result.source}" for result in results)
    return "\n".join([*shown, "", *sources])


def _cell(places: str) -> str:
    try:
        name, first, header = (place.strip() for place in places.split(";"))
    except ValueError:
        raise click.ClickException(f"<!-- cell: {places} --> is not NAME; ROW; COLUMN") from None
    result = _result(name)
    rows = [row for row in result.rows if row[0] == first]
    if len(rows) != 1 or header not in result.headers:
        has = ", ".join(map(repr, [*(row[0] for row in result.rows), *result.headers]))
        raise click.ClickException(f"{name} has no row {first!r} with a column {header!r}; it has {has}")
    return rows[0][result.headers.index(header)]


@click.command(help=__doc__)
@click.option("--check", is_flag=True, help="Write nothing; fail where a document is not what it would be.")
def main(check: bool) -> None:
    stale = []
    for path in documents():
        text = path.read_text(encoding="utf-8")
        if (new := rewritten(text)) != text:
            stale.append(str(path.relative_to(ROOT)))
            if not check:
                path.write_text(new, encoding="utf-8")
    if stale and check:
        sys.exit(f"not what benchmarks/results say: {', '.join(stale)}; run `python -m benchmarks.tables`")
    print(f"written: {', '.join(stale)}" if stale else "all documents are what benchmarks/results say")


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.tables")
