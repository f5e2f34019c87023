"""`python -m tests.lab`: every network kind with every other, as docs/networks.md. Needs ten minutes or so.

`python -m tests.lab OWNER/SCIENTIST …` links these pairs only, and prints what came of them.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.lab.gateway import KINDS
from tests.lab.lab import Lab
from tests.lab.matrix import EXPECTED, EXPECTED_BEHIND_ONE, Networks, Outcome
from tests.lab.namespace import unsupported
from tests.lab.notebook import NotebookError
from tests.lab.page import page

PAGE = Path(__file__).parents[2] / "docs" / "networks.md"


def main() -> None:
    if why := unsupported():
        sys.exit(why)
    chosen = [tuple(pair.split("/")) for pair in sys.argv[1:]]
    for pair in chosen:
        if pair not in EXPECTED:
            sys.exit(f"{'/'.join(pair)} is no pair of {', '.join(KINDS)}")
    outcomes: dict[tuple[str, str], Outcome] = {}
    behind: dict[tuple[bool, bool], Outcome] = {}
    with Lab(capture=True) as lab, Networks(lab) as networks:
        if not chosen:
            networks.begin(KINDS)
        for owner, scientist in chosen or EXPECTED:
            expected = EXPECTED[owner, scientist]
            try:
                outcome = outcomes[owner, scientist] = networks.link(owner, scientist, expected)
            except NotebookError as error:
                print(f"{owner}/{scientist}: {error}", flush=True)
                continue
            as_expected = "" if outcome.is_as(expected) else f", not {expected}: {outcome.why}"
            print(f"{owner}/{scientist}: {outcome}{as_expected}", flush=True)
        if not chosen:
            for (hairpin, isolated), expected in EXPECTED_BEHIND_ONE.items():
                behind[hairpin, isolated] = networks.link_behind_one(hairpin, isolated, expected)
    if not chosen:
        PAGE.write_text(page(outcomes, behind), encoding="utf-8")
        print(f"written: {PAGE}")


if __name__ == "__main__":
    main()
