"""`python -m duetlink …` is the command `duetlink …`."""

from __future__ import annotations

from duetlink.tools.cli import main

main(prog_name="duetlink")
