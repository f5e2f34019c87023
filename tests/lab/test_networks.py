"""Links between networks of every kind: connected, by the best rung there is, and 16 MiB intact.

A choice of pairs in which every kind and every rung occurs; `python -m tests.lab` takes them all and writes
docs/networks.md.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from duetlink.settings import MIB
from tests.lab.gateway import KINDS
from tests.lab.lab import Lab
from tests.lab.matrix import EXPECTED, EXPECTED_BEHIND_ONE, Networks, Outcome

pytestmark = pytest.mark.slow

# owner's network, scientist's network
PAIRS = [
    ("open", "open"),
    ("port-restricted", "open"),
    ("port-restricted", "port-restricted"),
    ("address-restricted", "double-nat"),
    ("udp-blocked", "full-cone"),
    ("full-cone", "symmetric"),
    ("symmetric", "address-restricted"),
    ("symmetric", "symmetric"),
    ("symmetric", "udp-blocked"),
    ("only-443", "only-443"),
    ("ipv6", "ipv6"),
    ("double-nat", "ipv6"),
]


@pytest.fixture(scope="module")
def networks(lab: Lab) -> Iterator[Networks]:
    with Networks(lab, 16 * MIB) as networks:
        networks.begin(KINDS)
        yield networks


def check(outcome: Outcome, expected: str) -> None:
    assert outcome.is_as(expected), (outcome.path, outcome.why)
    assert outcome.intact


def test_the_pairs_cover_every_kind_and_every_rung() -> None:
    assert {owner for owner, _ in PAIRS} == {scientist for _, scientist in PAIRS} == set(KINDS)
    assert {EXPECTED[pair] for pair in PAIRS} == {"tcp", "punched", "udp", "relay"}


@pytest.mark.parametrize(("owner", "scientist"), PAIRS)
def test_a_link_takes_the_best_rung_and_carries_16_mib(
    networks: Networks, owner: str, scientist: str
) -> None:
    expected = EXPECTED[owner, scientist]
    check(networks.link(owner, scientist, expected), expected)


@pytest.mark.parametrize(("hairpin", "isolated"), EXPECTED_BEHIND_ONE)
def test_two_hosts_behind_one_gateway(networks: Networks, hairpin: bool, isolated: bool) -> None:
    expected = EXPECTED_BEHIND_ONE[hairpin, isolated]
    check(networks.link_behind_one(hairpin, isolated, expected), expected)
