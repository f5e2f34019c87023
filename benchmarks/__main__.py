"""`python -m benchmarks [NAME [OPTIONS]]…`: the tables by default, or what is named."""

from __future__ import annotations

from benchmarks.command import Benchmarks

TABLES = ("control", "busy", "seed_table", "large", "zero_copy", "tunnel", "codecs", "dedup")
BY_NAME_ALONE = (
    *("cuts", "delivery", "engine", "gradients", "groups", "iteration", "learning", "local_steps"),
    *("secure_sums", "sums", "panel", "page", "policies", "prep", "remote", "reuse"),
)

main = Benchmarks("benchmarks", TABLES, BY_NAME_ALONE)

if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
