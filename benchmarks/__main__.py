"""`python -m benchmarks [NAME [OPTIONS]]…`: the tables by default, or what is named."""

from __future__ import annotations

from benchmarks.command import Benchmarks

TABLES = (
    "start",
    "busy",
    "seed_table",
    "large",
    "zero_copy",
    "tunnel",
    "part_control",
    "part_codecs",
    "part_dedup",
)
BY_NAME_ALONE = (
    *("cuts", "delivery", "gradients", "groups", "learning", "local_steps", "panel", "policies", "prep"),
    *("remote", "reuse", "part_audit", "part_engine", "part_iteration", "part_page", "part_secure_sums"),
    "part_sums",
)

main = Benchmarks("benchmarks", TABLES, BY_NAME_ALONE)

if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
