"""Who is named, from what all have stated: nobody honest, and whoever gave garbage. And the figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from duetlink.data.codecs.element import BY_NAME
from duetlink.errors import OutOfRange, SettingError
from duetlink.groups.secure import naming
from duetlink.groups.secure.keystream import Residues, at, mask
from duetlink.groups.secure.naming import TRIALS, Evidence, TrialFacts, Trials, Verdict
from duetlink.groups.secure.ranges import Range

FLOAT32, FLOAT64, INT64 = (BY_NAME[name] for name in ("float32", "float64", "int64"))


def stated(
    rng: np.random.Generator, given: Sequence[int], owner: int, blinds: Residues | None = None
) -> tuple[TrialFacts, list[Evidence]]:
    """What all have and state, if each adds one number at every place, and keeps to the protocol."""
    size = len(given)

    def words(*shape: int) -> Residues:
        return rng.integers(0, 2**64, shape, np.uint64)

    factors = rng.integers(1, 256, TRIALS).astype(np.uint64)
    self_masks, masks, blinding = words(size, TRIALS), words(size, size, TRIALS), words(size, size, TRIALS)
    for i in range(size):
        for j in range(i):
            masks[i, j], blinding[i, j] = masks[j, i], blinding[j, i]
    sent = np.array([[x % 2**64] * TRIALS for x in given], np.uint64)
    totals = sent.sum(axis=0)
    sent = sent + self_masks
    blinded = np.stack([naming.blinds(size) for _ in given]) if blinds is None else blinds.copy()
    for i in range(size):
        for j in range(size):
            if j > i:
                sent[i], blinded[i] = sent[i] + masks[i, j], blinded[i] + blinding[i, j]
            elif j < i:
                sent[i], blinded[i] = sent[i] - masks[i, j], blinded[i] - blinding[i, j]
    evidence = []
    for i in range(size):
        pairs = factors * masks[i] + blinding[i]
        rows = np.zeros((size, TRIALS), np.uint64)
        rows[range(size) if i == owner else i] = sent if i == owner else sent[i]
        pairs[i] = 0
        evidence.append(Evidence(rows, pairs))
    return TrialFacts(owner, factors, totals, self_masks, blinded), evidence


def test_nobody_honest_is_named_whatever_values_and_numbers_there_are() -> None:
    rng = np.random.default_rng(1)
    for turn in range(200):
        size = int(rng.integers(3, 17))
        most = 2 ** (32 - (size - 1).bit_length())
        given = [int(rng.choice([-most, 0, most])) for _ in range(size)]
        end = naming.most_blind(size)
        extreme = np.full((size, TRIALS), (end - 1, 2**64 - end)[turn % 2], np.uint64)
        facts, evidence = stated(rng, given, int(rng.integers(size)), extreme if turn < 50 else None)
        assert facts.judge(evidence) is None


def test_whoever_gave_garbage_is_named_alone() -> None:
    rng = np.random.default_rng(2)
    for _ in range(200):
        size = int(rng.integers(3, 17))
        liar = int(rng.integers(size))
        given = [0] * size
        given[liar] = int(rng.integers(2**59, 2**62)) * int(rng.choice([-1, 1]))
        facts, evidence = stated(rng, given, int(rng.integers(size)))
        assert facts.judge(evidence) == Verdict((liar,), is_pair=False)


def test_whatever_a_member_states_it_is_in_every_pair_that_is_named() -> None:
    """The others' values are honest: of each verdict the liar is one, whoever it accuses and of what."""
    rng = np.random.default_rng(3)
    seen = set()
    for turn in range(300):
        size = int(rng.integers(3, 7))
        liar, owner = (int(rank) for rank in rng.integers(size, size=2))
        given = [0] * size
        given[liar] = 2**60 * (turn % 3)
        facts, evidence = stated(rng, given, owner)
        old = evidence[liar]
        noise = rng.integers(0, 2**64, (2, size, TRIALS), np.uint64)
        rows = rng.integers(0, 2, (2, size, 1), np.uint64).astype(np.bool_)
        evidence[liar] = Evidence(
            np.where(rows[0], noise[0], old.sent), np.where(rows[1], noise[1], old.pairs)
        )
        verdict = facts.judge(evidence)
        if turn % 3:
            assert verdict is not None
        assert verdict is None or liar in verdict.ranks
        assert verdict is None or len(verdict.ranks) == 1 + verdict.is_pair
        seen.add(None if verdict is None else verdict.is_pair)
    assert seen == {None, False, True}


def test_a_false_sum_is_the_owner_s_own() -> None:
    facts, evidence = stated(np.random.default_rng(4), [1, 2, 3], 1)
    false = replace(facts, totals=facts.totals + np.uint64(3 * 2**58))
    assert false.judge(evidence) == Verdict((1,), is_pair=False)


def test_two_that_collude_can_share_the_garbage_out_but_not_hide_it() -> None:
    """What one takes off its own number, its accomplice has added to its own."""
    rng = np.random.default_rng(5)
    for _ in range(100):
        facts, evidence = stated(rng, [3 * 2**58, 0, 0, 0], 3)
        shift = rng.integers(0, 2**64, TRIALS, np.uint64)
        for one, other in ((0, 2), (2, 0)):
            evidence[one].pairs[other] += shift
        verdict = facts.judge(evidence)
        assert verdict is not None
        assert not verdict.is_pair
        assert set(verdict.ranks) <= {0, 2}


def test_no_garbage_passes_a_trial_with_more_than_129_of_255_factors() -> None:
    """Whatever is added: 2^55 steps or more, in an arc of a quarter of the ring, wherever that begins."""
    rng = np.random.default_rng(6)
    quarter, r = 2**62, np.arange(1, 256, dtype=np.uint64)
    thirds = [2**64 * part // whole for whole in range(2, 40) for part in range(1, whole // 2 + 1)]
    powers = [2**power + off for power in range(55, 64) for off in (-1, 0, 1)]
    given = np.array([2**55 - 2**32, *powers, *thirds], np.uint64)  # honest members may have taken 2^32 off
    given = np.concatenate([given, rng.integers(2**55, 2**63, 2000, np.uint64)])
    given = np.concatenate([given, (2 ** rng.uniform(55, 63, 2000)).astype(np.uint64)])
    most = 0
    for x in given[given >= 2**55 - 2**32]:
        found = np.sort(r * x)
        ahead = np.searchsorted(
            np.concatenate([found.astype(float), found.astype(float) + 2.0**64]),
            found.astype(float) + quarter,
        )
        most = max(most, int((ahead - np.arange(255)).max()))
    assert 128 <= most <= 129
    assert (129 / 255) ** TRIALS < 2**-15.7


def test_the_distance_that_is_promised_follows_from_the_constants() -> None:
    for size in range(3, 17):
        item = 2 ** (naming.SUM_BITS - (size - 1).bit_length())
        shown = naming.MOST_FACTOR * item / (2 * naming.most_blind(size))  # of two uniform distributions
        assert TRIALS * shown < 2**-18
        # all who collude, at most all but one, fill less than a quarter of the ring
        assert (size - 1) * 2 * naming.most_revealed(size) < 2**62
        assert size * item <= 2**32


def test_the_numbers_that_hide_are_uniform() -> None:
    found = np.concatenate([naming.blinds(4) for _ in range(1000)]).view(np.int64)
    assert found.min() >= -(2**59)
    assert found.max() < 2**59
    counts = np.bincount((found + 2**59) >> 54, minlength=64)
    assert abs(((counts - 250.0) ** 2 / 250).sum() - 63) < 9 * np.sqrt(2 * 63)


def test_what_is_told_does_not_follow_the_value() -> None:
    """z of the smallest and of the largest value: the same in all bits that 16,000 numbers can show."""
    low, high = (
        np.concatenate([np.uint64(sign * 255 * 2**30 % 2**64) + naming.blinds(4) for _ in range(1000)])
        for sign in (-1, 1)
    )
    ones = [np.unpackbits(z.view(np.uint8).reshape(-1, 8), axis=1).mean(axis=0) for z in (low, high)]
    assert np.abs(ones[0] - ones[1]).max() < 6 * np.sqrt(0.5 / len(low))


# -- trials and places -------------------------------------------------------------------------------------


def test_trials_follow_from_the_coins_alone() -> None:
    one, same, other = (Trials.of(coins, np.array([5, 9, 1000])) for coins in (b"a", b"a", b"b"))
    assert one.places == same.places
    np.testing.assert_array_equal(one.factors, same.factors)
    assert (one.places, one.factors.tolist()) != (other.places, other.factors.tolist())
    many = [Trials.of(bytes([number]), np.arange(3)) for number in range(200)]
    factors = np.concatenate([each.factors for each in many])
    assert (factors.min(), factors.max()) == (1, 255)
    places = np.bincount([place for each in many for place in each.places])
    assert abs(places - 3200 / 3).max() < 5 * np.sqrt(3200 * 2 / 9)


def test_sums_that_are_far_out_are_from_2_to_the_55_on() -> None:
    sums = np.array([0, 2**55 - 1, 2**55, 2**63, 2**64 - 2**55, 2**64 - 2**55 + 1], np.uint64)
    assert naming.far_out(sums).tolist() == [2, 3, 4]


def test_a_keystream_s_items_at_some_places() -> None:
    whole = np.zeros(200, np.uint64)
    mask(whole, [bytes(32)], [])
    assert at(bytes(32), [0, 15, 16, 199]).tolist() == whole[[0, 15, 16, 199]].tolist()


# -- ranges ------------------------------------------------------------------------------------------------


def test_steps_are_coarser_and_items_of_all_members_stay_within_32_bits() -> None:
    for members, step in ((3, 2**-10), (4, 2**-10), (5, 2**-9), (16, 2**-8)):
        assert Range.of(FLOAT32, members, None, 0, 2, accountable=True).step == step
    for members in (3, 4, 5, 16):
        for element in (FLOAT32, FLOAT64):
            chosen = Range.of(element, members, 1.0, 0, 2, accountable=True)
            assert chosen.storage == np.dtype("<u8")
            most = chosen.encode(np.ones(1, element.storage))
            assert members * int(most[0]) <= 2**32
            assert chosen.decode(most, "sum")[0] == 1.0
        whole = Range.of(INT64, members, None, 0, 2, accountable=True)
        assert whole.limit == 2**31 // members
        with pytest.raises(OutOfRange):
            whole.encode(np.array([2**31 // members + 1]))


@pytest.mark.parametrize("members", [3, 4, 5, 8, 9, 16])
@pytest.mark.parametrize(("limit", "noise"), [(1.0, 0.0), (0.99, 0.1), (1e6, 3.0), (1e-3, 2e-2), (5.0, 1e3)])
def test_the_largest_item_with_the_largest_noise_is_no_garbage(
    members: int, limit: float, noise: float
) -> None:
    chosen = Range.of(FLOAT64, members, limit, noise, 1, accountable=True)
    largest = chosen.limit / chosen.step + 16 * chosen.share_sigma + 1
    assert naming.MOST_FACTOR * largest + naming.most_blind(members) <= naming.most_revealed(members)


def test_noise_finer_than_the_steps_is_refused_with_what_to_do() -> None:
    assert Range.of(FLOAT64, 4, 1e6, 1.0, 2, accountable=True).share_sigma == 725  # 2^-10 steps, 1 / sqrt(2)
    with pytest.raises(SettingError, match=r"Declare a smaller limit$"):
        Range.of(FLOAT64, 4, 1e6, 0.01, 2, accountable=True)
    with pytest.raises(SettingError, match="cannot add up integers with noise of 16777216 steps each"):
        Range.of(INT64, 16, None, 2**24, 1, accountable=True)
