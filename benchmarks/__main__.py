"""`python -m benchmarks [--quick] [NAME [OPTIONS]]…`: what `make bench` runs by default, or what is named."""

from __future__ import annotations

from benchmarks.command import Benchmarks

# A command that a document names is in one of the two lists, each benchmark in at least one.
BENCH = (
    *("start", "busy", "groups", "seed_table", "large", "zero_copy", "tunnel", "policies", "remote"),
    *("part_control", "part_audit", "part_codecs", "part_dedup"),
)
# The weekly job runs these as well: they take long, or need a browser, Spark or root.
WEEKLY = (
    *(
        "cuts",
        "ddp",
        "ddp --line 1gbit",
        "delivery",
        "gradients",
        "in_place",
        "learning",
        "links",
        "local_steps --seeds 3",
        "panel",
        "prep --rounds 3",
    ),
    *("prep --stream 50", "reuse", "part_engine", "part_iteration", "part_page", "part_secure_sums"),
    *("part_sums --rounds 3", "two_sites"),
)

main = Benchmarks("benchmarks", BENCH, WEEKLY)

if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
