"""`group.all_reduce` among members at two sites, whose lines have RATE_MBIT; needs root, for namespaces.

Each site is a host with several members. The default call (two levels, where these are predicted to be the
fastest) is measured beside a ring of all members, in turn. A time is that of the slowest member. What crosses
is counted at the lines, with all headers: copies of the array that a site sends to the other, in the median.
"""

from __future__ import annotations

import statistics

import click

from benchmarks.command import benchmark, rounds
from benchmarks.harness import Sample, ratio, report
from tests.lab.lab import Lab
from tests.lab.two_sites import SiteSum, TwoSites

RATE_MBIT = 100.0
DELAY_MS = 2.5  # one way, of each line: a round trip of 10 ms between the sites
QUICK = {"members": 2, "size_mib": 1}
WAYS = {"default": None, "ring": "ring"}


@benchmark
@click.option("--members", type=click.IntRange(1), default=4, show_default=True, help="At each site.")
@click.option("--size-mib", type=click.IntRange(1), default=16, show_default=True, help="Of the array.")
@rounds(5)
def main(members: int, size_mib: int, rounds: int) -> None:
    size_bytes = size_mib << 20
    found: dict[str, list[SiteSum]] = {name: [] for name in WAYS}
    with Lab() as lab, TwoSites(lab, members, rate_mbit=RATE_MBIT, delay_ms=DELAY_MS) as sites:
        explained = sites.explain(size_bytes)
        for _ in range(rounds + 1):
            for name, algorithm in WAYS.items():
                found[name].append(sites.sum(size_bytes, algorithm))
    if not all(each.is_equal for sums in found.values() for each in sums):
        raise click.ClickException("the members had different sums")
    samples = {name: Sample(tuple(each.elapsed_s for each in sums[1:])) for name, sums in found.items()}
    copies = {
        name: [statistics.median(each.sent_bytes[site] for each in sums[1:]) / size_bytes for site in (0, 1)]
        for name, sums in found.items()
    }
    rows = [
        [
            name,
            f"{sample.median_s * 1000:.0f}",
            sample.spread,
            ratio(samples["ring"], sample),
            " and ".join(f"{each:.2f}" for each in copies[name]),
        ]
        for name, sample in samples.items()
    ]
    click.echo(explained)
    report(
        "two_sites",
        f"{size_mib} MiB among {members} members at each of two sites, {RATE_MBIT:g} Mbit/s",
        ["way", "ms", "least to most ms", "of the ring", "copies sent by each site"],
        rows,
        {"sums": found, "explained": explained, "members": members, "size_bytes": size_bytes},
    )


if __name__ == "__main__":
    main()
